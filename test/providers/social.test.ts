import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { recordKey, social } from "../../src/providers/index.ts";
import { linkFacets } from "../../src/providers/link-facets.ts";
import { blueskySocial } from "../../src/providers/social.ts";
import { fresh } from "../api/client.ts";
import { inject, ledger, scripted } from "./embedded.ts";

afterEach(async () => {
  vi.useRealTimers();
  await inject();
});

const createdAt = "2026-10-01T12:00:00.000Z";
/** A post unique to this test run: its text is also its name. */
const postOf = async (text: string) => ({ text, createdAt, rkey: await recordKey(createdAt, `${RUN} ${text}`) });
const RUN = fresh("run");

describe("social posting", () => {
  it("the Bluesky adapter writes a post with a clickable link", async () => {
    const post = await postOf("Tea 茶: https://shop.example.com/tea.");
    const { uri, cid } = await social(env).post(post, { key: "k1" });
    expect(uri).toBe(`at://did:web:brand.test/app.bsky.feed.post/${post.rkey}`);
    expect(cid).toMatch(/^bafyrei[a-z2-7]{52}$/);

    const query = new URLSearchParams({ repo: "did:web:brand.test", collection: "app.bsky.feed.post", rkey: post.rkey });
    const stored = await env.UPSTREAMS.fetch(`https://social.embedded/xrpc/com.atproto.repo.getRecord?${query}`);
    expect(await stored.json()).toMatchObject({
      cid,
      value: {
        $type: "app.bsky.feed.post",
        text: post.text,
        createdAt,
        facets: [{ index: { byteStart: 9, byteEnd: 37 }, features: [{ uri: "https://shop.example.com/tea" }] }],
      },
    });
  });

  it("the Bluesky adapter posts once, for any number of requests", async () => {
    const post = await postOf("Oolong is here.");
    const first = await social(env).post(post, { key: "k1" });
    expect(await social(env).post(post, { key: "k1" })).toEqual(first);
    expect((await ledger({ match: post.rkey })).totals.social).toMatchObject({ created: 1, unchanged: 1 });
  });

  it("the Bluesky adapter deletes a post, and a second deletion has no effect", async () => {
    const post = await postOf("Gone soon.");
    await social(env).post(post, { key: "k1" });
    await social(env).remove(post.rkey, { key: "k2" });
    await social(env).remove(post.rkey, { key: "k2" });
    const query = new URLSearchParams({ repo: "did:web:brand.test", collection: "app.bsky.feed.post", rkey: post.rkey });
    const stored = await env.UPSTREAMS.fetch(`https://social.embedded/xrpc/com.atproto.repo.getRecord?${query}`);
    expect(await stored.json()).toMatchObject({ error: "RecordNotFound" });
    expect((await ledger({ match: post.rkey })).totals.social).toMatchObject({ created: 1, removed: 1, unchanged: 1 });
  });

  it("the Bluesky adapter logs in again when its session has ended", async () => {
    await social(env).post(await postOf("Before."), { key: "k1" });
    const stub = env.EMBEDDED_LEDGER.getByName("local");
    await runInDurableObject(stub, (_, { storage }) => void storage.sql.exec("UPDATE sessions SET expires_at = 0"));
    await expect(social(env).post(await postOf("After."), { key: "k2" })).resolves.toMatchObject({ cid: expect.any(String) });
  });

  it("the Bluesky adapter waits for the time that the server requests", async () => {
    await inject({ upstream: "social", match: "putRecord", status: 429, remaining: 1, retryAfter: 60 });
    const posted = social(env).post(await postOf("Too fast."), { key: "k1" });
    await expect(posted).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: 60_000 } });
  });

  it("the Bluesky adapter waits until the time in ratelimit-reset if there is no other header, also at the login", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_790_000_000_000 });
    const busy = () => new Response("{}", { status: 429, headers: { "ratelimit-reset": "1790000600" } });
    const post = await postOf("Too fast.");
    const session = () => Response.json({ did: "did:plc:1", accessJwt: "one" });
    for (const answers of [[busy()], [session(), busy()]]) {
      const posted = blueskySocial(scripted(...answers), `busy-${answers.length}.example.com`).post(post, { key: "k1" });
      await expect(posted).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: 600_000 } });
    }
  });

  it.each<[string, object[], string]>([
    ["says that the account is suspended", [{ did: "did:plc:1", accessJwt: "one", active: false, status: "suspended" }], "is suspended"],
    [
      "says that the post is not valid",
      [
        { did: "did:plc:1", accessJwt: "one" },
        { uri: "at://did:plc:1/app.bsky.feed.post/3k2a", cid: "b", validationStatus: "invalid" },
      ],
      'as "invalid"',
    ],
    ["has an error in place of the session", [{ error: "AccountTakedown", message: "Gone." }], "AccountTakedown"],
  ])("the Bluesky adapter does not count a post as done if a 200 response %s", async (name, answers, words) => {
    const server = scripted(...answers.map((answer) => Response.json(answer)));
    const post = { rkey: "3k2a", text: "Tea.", createdAt: "2026-10-01T12:00:00.000Z" };
    await expect(blueskySocial(server, `${name}.example`).post(post, { key: "k" })).rejects.toThrow(words);
  });

  it("the Bluesky adapter does not count a removal as done if a 200 response has an error in its body", async () => {
    const server = scripted(Response.json({ did: "did:plc:1", accessJwt: "one" }), Response.json({ error: "InternalServerError" }));
    await expect(blueskySocial(server, "removes.example").remove("3k2a", { key: "k" })).rejects.toMatchObject({ code: "unavailable" });
  });

  it("the Bluesky adapter reports the server's validation errors of a post", async () => {
    const posted = social(env).post(await postOf("long ".repeat(61)), { key: "k1" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("300 graphemes") });
  });

  it("the Bluesky adapter reports a wrong password as refused", async () => {
    const posted = social({ ...env, SOCIAL_PASSWORD: "wrong" }).post(await postOf("Hi."), { key: "k" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("Check SOCIAL_PASSWORD") });
  });

  it.each(["a b", "", "..", "x".repeat(513)])("the Bluesky adapter refuses the record key %j before the request is sent", async (rkey) => {
    await expect(social(env).post({ text: "Hi.", createdAt, rkey }, { key: "k" })).rejects.toMatchObject({ code: "not_retryable" });
  });

  it("the Bluesky adapter refuses a record key that Bluesky would store but never show", async () => {
    const posted = social(env).post({ text: "Hi.", createdAt, rkey: "my-post" }, { key: "k" });
    await expect(posted).rejects.toMatchObject({ message: expect.stringContaining("TID") });
  });
});

describe("AT Protocol sessions", () => {
  const session = (accessJwt: string) => Response.json({ did: "did:plc:1", accessJwt });
  const written = () => Response.json({ uri: "at://did:plc:1/app.bsky.feed.post/1", cid: "bafyrei" });
  const bearers = (requests: Request[]) => requests.map((request) => request.headers.get("authorization"));

  it("an AT Protocol session is shared by the posts of an account", async () => {
    const server = scripted(session("one"), written(), written());
    await blueskySocial(server, "shared.example.com").post(await postOf("1"), { key: "k1" });
    await blueskySocial(server, "shared.example.com").post(await postOf("2"), { key: "k2" });
    expect(bearers(server.requests)).toEqual([null, "Bearer one", "Bearer one"]);
  });

  it.each([
    ["401", new Response("{}", { status: 401 })],
    ["400 ExpiredToken", Response.json({ error: "ExpiredToken", message: "Token has expired" }, { status: 400 })],
  ])("an AT Protocol session is opened again after %s, once", async (name, stale) => {
    const server = scripted(session("one"), written(), stale, session("two"), written());
    const port = blueskySocial(server, name);
    await port.post(await postOf("1"), { key: "k1" });
    await port.post(await postOf("2"), { key: "k2" });
    expect(bearers(server.requests)).toEqual([null, "Bearer one", "Bearer one", null, "Bearer two"]);
  });

  it("an AT Protocol session that was just opened is not opened again after a refusal", async () => {
    const server = scripted(session("one"), new Response("{}", { status: 401 }));
    const posted = blueskySocial(server, "fresh.example.com").post(await postOf("1"), { key: "k1" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable" });
  });
});

describe("record keys", () => {
  it("the record keys of a post are the same for the same post, and valid TIDs", async () => {
    expect(await recordKey(createdAt, "a")).toBe(await recordKey(createdAt, "a"));
    expect(await recordKey(createdAt, "a")).not.toBe(await recordKey(createdAt, "b"));
    expect(await recordKey(createdAt, "a")).toMatch(/^[2-7a-j][2-7a-z]{12}$/);
  });

  it("the record keys of posts have the order of the posts", async () => {
    expect((await recordKey("2026-10-01T00:00:00Z", "z")) < (await recordKey("2026-10-02T00:00:00Z", "a"))).toBe(true);
  });
});

describe("links in a post", () => {
  it.each([
    ["See https://a.example.com/x, please", ["https://a.example.com/x"]],
    ["(https://a.example.com/x)", ["https://a.example.com/x"]],
    ["https://a.example.com/x_(y) and http://b.example.com/?q=1!", ["https://a.example.com/x_(y)", "http://b.example.com/?q=1"]],
    ["no link", []],
  ])("the links in a post are found in %j", (text, uris) => {
    expect(linkFacets(text).map(({ features: [link] }) => link.uri)).toEqual(uris);
  });
});
