import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { accountTarget, X_CHARACTERS, xLength } from "../../src/providers/index.ts";
import { oauth1Header, oauth1Parameters, oauth1Signature } from "../../src/providers/oauth1.ts";
import { xAccount } from "../../src/providers/x.ts";
import { fresh } from "../api/client.ts";
import { conforms } from "../contracts/check.ts";
import contract from "../contracts/x.json";
import { inject, ledger, scripted } from "./embedded.ts";

afterEach(async () => {
  vi.useRealTimers();
  await inject();
});

const keys = { consumerKey: "app", consumerSecret: "app secret", token: "user", tokenSecret: "user secret" };

/** An account of a brand that no other test has, on the embedded server; each exchange is checked against the API description. */
function account() {
  const tenantId = fresh("tenant");
  const UPSTREAMS = {
    async fetch(request: Request): Promise<Response> {
      expect(`${request.method} ${new URL(request.url).pathname}`).toBe("POST /2/tweets");
      const answer = await env.UPSTREAMS.fetch(request.clone());
      expect(conforms(contract, "CreatePostsRequest", await request.json())).toEqual([]);
      expect(conforms(contract, answer.ok ? "CreatePostsResponse" : "Problem", await answer.clone().json())).toEqual([]);
      if (answer.ok) expect(answer.status).toBe(201);
      return answer;
    },
  };
  const port = accountTarget({ ...env, UPSTREAMS }, { tenantId, brand: "acme", name: "birds", platform: "x" });
  return { tenantId, port };
}

describe("A post on X", () => {
  it("a post on X is created, and the result has its URL", async () => {
    const { tenantId, port } = account();
    const { uri, url } = await port.post("Tea is here.", { key: "k" });
    expect(url).toBe(`https://x.com/i/web/status/${uri}`);
    expect((await ledger({ upstream: "x", match: tenantId })).totals.x).toMatchObject({ created: 1 });
  });

  it("a post on X is refused as a duplicate, with a reference to the first post", async () => {
    const { tenantId, port } = account();
    await port.post("Tea is here.", { key: "k" });
    const again = port.post("Tea is here.", { key: "k" });
    await expect(again).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("a post with this text already") });
    expect((await ledger({ upstream: "x", match: tenantId })).totals.x).toMatchObject({ created: 1, refused: 1 });
  });

  it("a post on X that is too long is refused without an effect", async () => {
    const { tenantId, port } = account();
    await expect(port.post("茶".repeat(141), { key: "k" })).rejects.toMatchObject({ code: "not_retryable", message: /too long/ });
    await expect(port.post("茶".repeat(140), { key: "k" })).resolves.toBeDefined();
    expect((await ledger({ upstream: "x", match: tenantId })).totals.x).toMatchObject({ created: 1 });
  });

  it.each([
    ["the app's secret", { consumerSecret: "wrong" }],
    ["the user's secret", { tokenSecret: "wrong" }],
    ["the app", { consumerKey: "wrong" }],
    ["the user", { token: "wrong" }],
  ])("a post on X is refused for a signature with another value of %s", async (_, wrong) => {
    const embedded = { consumerKey: "embedded", consumerSecret: "embedded", token: "embedded.t.b.n", tokenSecret: "embedded" };
    const upstream = {
      name: "birds",
      url: "https://x.embedded",
      credential: { variable: "TARGET_ACME__BIRDS", value: "embedded.t.b.n" },
      fetch: (request: Request) => env.UPSTREAMS.fetch(request),
    };
    const posted = xAccount(upstream, { ...embedded, ...wrong }).post(fresh("Hi"), { key: "k" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("Check TARGET_ACME__BIRDS") });
  });

  it.each<[string, Record<string, string>, number]>([
    ["the limit of the endpoint", { "x-rate-limit-remaining": "0", "x-rate-limit-reset": "1790000900" }, 900_000],
    [
      "the later one of two limits that are used up",
      {
        "x-rate-limit-remaining": "0",
        "x-rate-limit-reset": "1790000900",
        "x-user-limit-24hour-remaining": "0",
        "x-user-limit-24hour-reset": "1790003600",
      },
      3_600_000,
    ],
    ["a limit without a remainder", { "x-rate-limit-reset": "1790000060" }, 60_000],
    ["no header", {}, 30_000],
  ])("a post on X waits for %s", async (_, headers, delayMs) => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_790_000_000_000 });
    const busy = scripted(Response.json({ title: "Too Many Requests", type: "about:blank", status: 429 }, { status: 429, headers }));
    await expect(xAccount(busy, keys).post("Hi.", { key: "k" })).rejects.toMatchObject({ code: "retry_after", detail: { delayMs } });
  });

  it("a post on X waits after a 429 of the embedded server, which has the headers of X", async () => {
    const { port } = account();
    await inject({ upstream: "x", match: "tweets", status: 429, remaining: 1, retryAfter: 60 });
    const posted = await port.post("Hi.", { key: "k" }).catch((error) => error);
    expect(posted).toMatchObject({ code: "retry_after" });
    expect(posted.detail.delayMs).toBeGreaterThan(55_000);
  });

  it.each([
    ["a 503", Response.json({ title: "Service Unavailable" }, { status: 503 })],
    ["a 201 without an id", Response.json({ data: {} }, { status: 201 })],
    ["a lost connection", new Error("reset")],
  ])("a post on X has an unknown outcome after %s", async (_, answer) => {
    await expect(xAccount(scripted(answer), keys).post("Hi.", { key: "k" })).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("An OAuth 1.0a signature", () => {
  it("an OAuth 1.0a signature equals the example of RFC 5849, section 1.2, and its header is parsed", async () => {
    const own = {
      oauth_consumer_key: "dpf43f3p2l4k3l03",
      oauth_token: "nnch734d00sl2jdk",
      oauth_signature_method: "HMAC-SHA1",
      oauth_timestamp: "137131202",
      oauth_nonce: "chapoH",
    };
    const secrets = { consumerSecret: "kd94hf93k423kf44", tokenSecret: "pfkkdhi9sl3r4s00" };
    const request = { method: "GET", url: "http://photos.example.net/photos", parameters: { file: "vacation.jpg", size: "original" } };
    expect(await oauth1Signature(secrets, request, own)).toBe("MdpQcU8iPSUjWoN/UDMsK2sui9I=");

    const read = oauth1Parameters(await oauth1Header({ ...keys, token: "a b&c" }, { method: "POST", url: "https://api.x.com/2/tweets" }));
    expect(read).toMatchObject({ oauth_consumer_key: "app", oauth_token: "a b&c", oauth_version: "1.0" });
    expect(oauth1Parameters("Bearer abc")).toBeUndefined();
  });

  it("an OAuth 1.0a signature is different for each request: a repeated nonce would be refused", async () => {
    const header = () => oauth1Header(keys, { method: "POST", url: "https://api.x.com/2/tweets" });
    expect(await header()).not.toBe(await header());
  });
});

describe("The length of a post on X, by the cases of twitter-text", () => {
  it.each<[string, string, number]>([
    ["latin letters", "This is a test.", 15],
    ["a link", "Hi http://test.co", 26],
    ["a domain without a scheme", "Test https://test.com test https://test.com test.com test", 86],
    ["a letter and a combining mark", "A\u0301B", 2],
    ["a letter that NFC decomposes", "A\ufb2c", 4],
    ["Chinese letters", "故人西辞黄鹤楼", 14],
    ["emoji", "😷👾😡🔥💩", 10],
    ["an emoji with a skin tone, and a profession", "🙋🏽👨‍🎤", 4],
    ["a family as one emoji", "👨‍👩‍👧‍👦", 2],
    ["a flag and a key", "🇫🇷#️⃣", 4],
    ["quotes and dashes", "– — ‘ ’ “ ” …", 14],
    ["an emoji joined to another without a meaning", "😷\u200d😷", 5],
  ])("the length of a post on X counts %s", (_, text, length) => {
    expect(xLength(text)).toBe(length);
  });

  it("the length of a post on X is at least the known length for a word that looks like a domain", () => {
    expect(xLength("node.js")).toBe(23);
    expect(xLength("x".repeat(X_CHARACTERS))).toBe(X_CHARACTERS);
  });
});
