import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { accountTarget, mastodonLength } from "../../src/providers/index.ts";
import { mastodonAccount } from "../../src/providers/mastodon.ts";
import { fresh } from "../api/client.ts";
import { conforms } from "../contracts/check.ts";
import contract from "../contracts/mastodon.json";
import { inject, ledger, scripted } from "./embedded.ts";

afterEach(async () => {
  vi.useRealTimers();
  await inject();
});

const page = "https://shop.example.com/tea?a=1&b=2";
const HOUR_MS = 3_600_000;

/** An account of a brand that no other test has, on the embedded server; each exchange is checked against the API description. */
function account() {
  const [tenantId, seen] = [fresh("tenant"), [] as string[]];
  const UPSTREAMS = {
    async fetch(request: Request): Promise<Response> {
      const { pathname, searchParams } = new URL(request.url);
      const name = `${request.method} ${pathname.replace(/accounts\/\d+/, "accounts/{id}")}`;
      const answer = await env.UPSTREAMS.fetch(request.clone());
      const body = await answer.clone().json();
      seen.push(`${name} ${answer.status}`);
      if (request.method === "POST") expect(conforms(contract, "CreateStatus", await request.json()), name).toEqual([]);
      const { limit, exclude_reblogs, ...query } = Object.fromEntries(searchParams);
      const read = {
        ...query,
        ...(limit && { limit: Number(limit) }),
        ...(exclude_reblogs && { exclude_reblogs: exclude_reblogs === "true" }),
      };
      expect(conforms(contract, "AccountStatuses", read), name).toEqual([]);
      const shapes: Record<string, string> = {
        "GET /api/v1/accounts/verify_credentials": "CredentialAccount",
        "GET /api/v1/accounts/{id}/statuses": "Statuses",
        "POST /api/v1/statuses": "Status",
      };
      expect(conforms(contract, answer.ok ? (shapes[name] ?? name) : "Error", body), name).toEqual([]);
      return answer;
    },
  };
  const port = accountTarget({ ...env, UPSTREAMS }, { tenantId, brand: "acme", name: "fedi", platform: "mastodon" });
  return { tenantId, seen, port };
}

/** Simulates that time has passed since the account's posts. */
const later = (tenantId: string, ms: number) =>
  runInDurableObject(
    env.EMBEDDED_LEDGER.getByName("local"),
    (_, { storage }) => void storage.sql.exec("UPDATE posts SET at = at - ? WHERE account LIKE ?", ms, `${tenantId}%`),
  );

describe("A post on Mastodon", () => {
  it("a post on Mastodon is created once under its key, and the result has its URL", async () => {
    const { tenantId, port } = account();
    const { uri, url } = await port.post(`Tea ${page}`, { key: "k" });
    expect(url).toMatch(new RegExp(`^https://mastodon\\.embedded/@${tenantId}\\.acme\\.fedi/\\d+$`));
    expect(await port.post(`Tea ${page}`, { key: "k" })).toEqual({ uri, url });
    expect((await ledger({ upstream: "mastodon", match: tenantId })).totals.mastodon).toMatchObject({ created: 1, repeated: 1 });
  });

  it("a post on Mastodon is found by its link if the key is an hour old and would create a second post", async () => {
    const { tenantId, port } = account();
    const since = Date.now();
    expect(await port.find([page], since, { key: "k" })).toBeUndefined();
    const posted = await port.post(`Tea ${page}`, { key: "k" });
    expect(await port.find([page], since, { key: "k" })).toEqual(posted);
    expect(await port.find([`${page}2`], since, { key: "k" })).toBeUndefined();
    await later(tenantId, HOUR_MS);
    expect(await port.find([page], since - HOUR_MS, { key: "k" })).toEqual(posted);
    expect(await port.post(`Tea ${page}`, { key: "k" })).not.toEqual(posted);
  });

  it("a post on Mastodon is found among later posts, page by page, and is not looked up before the first request", async () => {
    const { tenantId, port, seen } = account();
    const since = Date.now();
    const posted = await port.post(`Tea ${page}`, { key: "k" });
    for (let one = 0; one < 41; one++) await port.post(`Other ${one}`, { key: `other ${one}` });
    expect(await port.find([page], since, { key: "k" })).toEqual(posted);
    expect(seen.filter((name) => name === "GET /api/v1/accounts/{id}/statuses 200")).toHaveLength(2);
    await later(tenantId, 24 * HOUR_MS);
    expect(await port.find([page], since, { key: "k" })).toBeUndefined();
    expect(seen.filter((name) => name === "GET /api/v1/accounts/{id}/statuses 200")).toHaveLength(3);
  });

  it("a post on Mastodon has an unknown outcome if it is not among the thousand latest posts", async () => {
    const status = { uri: "u", url: null, created_at: new Date().toISOString(), content: "<p>Hi</p>" };
    const pages = Array.from({ length: 25 }, (_, nth) => Response.json([{ ...status, id: `${1000 - nth}` }]));
    const server = scripted(Response.json({ id: "1" }), ...pages);
    const found = mastodonAccount(server).find([page], Date.now(), { key: "k" });
    await expect(found).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("1000 posts") });
  });

  it("a post on Mastodon is refused without an effect if it is too long or the token is wrong", async () => {
    const { tenantId, port } = account();
    await expect(port.post("x".repeat(501), { key: "k" })).rejects.toMatchObject({ code: "not_retryable", message: /limit of 500/ });
    await expect(port.post(`${"x".repeat(477)}https://a.example/${"y".repeat(400)}`, { key: "k" })).resolves.toBeDefined();
    const stranger = mastodonAccount({
      name: "fedi",
      url: "https://mastodon.embedded",
      credential: { variable: "TARGET_ACME__FEDI", value: "stolen" },
      fetch: (request) => env.UPSTREAMS.fetch(request),
    });
    const refused = stranger.post("Hi.", { key: "k" });
    await expect(refused).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("Check TARGET_ACME__FEDI") });
    expect((await ledger({ upstream: "mastodon", match: tenantId })).totals.mastodon).toMatchObject({ created: 1 });
  });

  it("a post on Mastodon waits until the date in the header of a 429", async () => {
    const { port } = account();
    vi.useFakeTimers({ toFake: ["Date"], now: 1_790_000_000_000 });
    const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": new Date(1_790_000_120_000).toISOString() };
    const busy = scripted(Response.json({ error: "Too many requests" }, { status: 429, headers }));
    await expect(mastodonAccount(busy).post("Hi.", { key: "k" })).rejects.toMatchObject({
      code: "retry_after",
      detail: { delayMs: 120_000 },
    });
    vi.useRealTimers();
    await inject({ upstream: "mastodon", match: "statuses", status: 429, remaining: 1, retryAfter: 60 });
    const posted = await port.post("Hi.", { key: "k" }).catch((error) => error);
    expect(posted).toMatchObject({ code: "retry_after" });
    expect(posted.detail.delayMs).toBeGreaterThan(55_000);
  });

  it("a post on Mastodon gets its federation URL if the server shows no page of it", async () => {
    const status = { id: "1", uri: "https://a.example/s/1", url: null, created_at: "2026-10-01T12:00:00.000Z", content: "" };
    expect(await mastodonAccount(scripted(Response.json(status))).post("Hi.", { key: "k" })).toEqual({ uri: status.uri, url: status.uri });
  });
});

describe("The description of Mastodon", () => {
  it("the check against Mastodon's API description reports an unknown argument, a status without its account, and a page of 41", () => {
    expect(conforms(contract, "CreateStatus", { status: "Hi.", text: "Hi." })).not.toEqual([]);
    expect(conforms(contract, "Status", { id: "1" })).not.toEqual([]);
    expect(conforms(contract, "AccountStatuses", { limit: 41 })).not.toEqual([]);
  });
});

it("the length of a post on Mastodon counts characters as people see them, and a link as 23", () => {
  expect(mastodonLength("Tea 茶 👩‍👩‍👧‍👦")).toBe(7);
  expect(mastodonLength(`Hi https://a.example/${"x".repeat(90)}`)).toBe(26);
});
