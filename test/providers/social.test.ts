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
/** A post unique to this run: its text is also its name. */
const postOf = async (text: string) => ({ text, createdAt, rkey: await recordKey(createdAt, `${RUN} ${text}`) });
const RUN = fresh("run");

describe("social posting", () => {
  it("writes a post with a clickable link", async () => {
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

  it("posts once however often it is asked", async () => {
    const post = await postOf("Oolong is here.");
    const first = await social(env).post(post, { key: "k1" });
    expect(await social(env).post(post, { key: "k1" })).toEqual(first);
    expect((await ledger({ match: post.rkey })).totals.social).toMatchObject({ created: 1, unchanged: 1 });
  });

  it("deletes a post, and a second time has nothing to do", async () => {
    const post = await postOf("Gone soon.");
    await social(env).post(post, { key: "k1" });
    await social(env).remove(post.rkey, { key: "k2" });
    await social(env).remove(post.rkey, { key: "k2" });
    const query = new URLSearchParams({ repo: "did:web:brand.test", collection: "app.bsky.feed.post", rkey: post.rkey });
    const stored = await env.UPSTREAMS.fetch(`https://social.embedded/xrpc/com.atproto.repo.getRecord?${query}`);
    expect(await stored.json()).toMatchObject({ error: "RecordNotFound" });
    expect((await ledger({ match: post.rkey })).totals.social).toMatchObject({ created: 1, removed: 1, unchanged: 1 });
  });

  it("logs in again when its session has ended", async () => {
    await social(env).post(await postOf("Before."), { key: "k1" });
    const stub = env.EMBEDDED_LEDGER.getByName("local");
    await runInDurableObject(stub, (_, { storage }) => void storage.sql.exec("UPDATE sessions SET expires_at = 0"));
    await expect(social(env).post(await postOf("After."), { key: "k2" })).resolves.toMatchObject({ cid: expect.any(String) });
  });

  it("waits as long as the server asks", async () => {
    await inject({ upstream: "social", match: "putRecord", status: 429, remaining: 1, retryAfter: 60 });
    const posted = social(env).post(await postOf("Too fast."), { key: "k1" });
    await expect(posted).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: 60_000 } });
  });

  it("waits until the time a server names in ratelimit-reset alone, at the login too", async () => {
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
    ["is suspended", [{ did: "did:plc:1", accessJwt: "one", active: false, status: "suspended" }], "is suspended"],
    [
      "has a post that is not valid",
      [
        { did: "did:plc:1", accessJwt: "one" },
        { uri: "at://did:plc:1/app.bsky.feed.post/3k2a", cid: "b", validationStatus: "invalid" },
      ],
      'as "invalid"',
    ],
    ["answers a session with an error", [{ error: "AccountTakedown", message: "Gone." }], "AccountTakedown"],
  ])("has not posted where a 200 says that the account %s", async (name, answers, words) => {
    const server = scripted(...answers.map((answer) => Response.json(answer)));
    const post = { rkey: "3k2a", text: "Tea.", createdAt: "2026-10-01T12:00:00.000Z" };
    await expect(blueskySocial(server, `${name}.example`).post(post, { key: "k" })).rejects.toThrow(words);
  });

  it("has not removed a post where a 200 has an error in its body", async () => {
    const server = scripted(Response.json({ did: "did:plc:1", accessJwt: "one" }), Response.json({ error: "InternalServerError" }));
    await expect(blueskySocial(server, "removes.example").remove("3k2a", { key: "k" })).rejects.toMatchObject({ code: "unavailable" });
  });

  it("reports the server's validation errors of a post", async () => {
    const posted = social(env).post(await postOf("long ".repeat(61)), { key: "k1" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("300 graphemes") });
  });

  it("refuses a wrong password", async () => {
    const posted = social({ ...env, SOCIAL_PASSWORD: "wrong" }).post(await postOf("Hi."), { key: "k" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("Check SOCIAL_PASSWORD") });
  });

  it.each(["a b", "", "..", "x".repeat(513)])("refuses the record key %j before it leaves", async (rkey) => {
    await expect(social(env).post({ text: "Hi.", createdAt, rkey }, { key: "k" })).rejects.toMatchObject({ code: "not_retryable" });
  });

  it("refuses a record key Bluesky would store but never show", async () => {
    const posted = social(env).post({ text: "Hi.", createdAt, rkey: "my-post" }, { key: "k" });
    await expect(posted).rejects.toMatchObject({ message: expect.stringContaining("TID") });
  });
});

describe("AT Protocol sessions", () => {
  const session = (accessJwt: string) => Response.json({ did: "did:plc:1", accessJwt });
  const written = () => Response.json({ uri: "at://did:plc:1/app.bsky.feed.post/1", cid: "bafyrei" });
  const bearers = (requests: Request[]) => requests.map((request) => request.headers.get("authorization"));

  it("are shared by the posts of an account", async () => {
    const server = scripted(session("one"), written(), written());
    await blueskySocial(server, "shared.example.com").post(await postOf("1"), { key: "k1" });
    await blueskySocial(server, "shared.example.com").post(await postOf("2"), { key: "k2" });
    expect(bearers(server.requests)).toEqual([null, "Bearer one", "Bearer one"]);
  });

  it.each([
    ["401", new Response("{}", { status: 401 })],
    ["400 ExpiredToken", Response.json({ error: "ExpiredToken", message: "Token has expired" }, { status: 400 })],
  ])("are opened again after %s, once", async (name, stale) => {
    const server = scripted(session("one"), written(), stale, session("two"), written());
    const port = blueskySocial(server, name);
    await port.post(await postOf("1"), { key: "k1" });
    await port.post(await postOf("2"), { key: "k2" });
    expect(bearers(server.requests)).toEqual([null, "Bearer one", "Bearer one", null, "Bearer two"]);
  });

  it("are not the cure for a fresh refusal", async () => {
    const server = scripted(session("one"), new Response("{}", { status: 401 }));
    const posted = blueskySocial(server, "fresh.example.com").post(await postOf("1"), { key: "k1" });
    await expect(posted).rejects.toMatchObject({ code: "not_retryable" });
  });
});

describe("record keys", () => {
  it("are the same for the same post, and valid TIDs", async () => {
    expect(await recordKey(createdAt, "a")).toBe(await recordKey(createdAt, "a"));
    expect(await recordKey(createdAt, "a")).not.toBe(await recordKey(createdAt, "b"));
    expect(await recordKey(createdAt, "a")).toMatch(/^[2-7a-j][2-7a-z]{12}$/);
  });

  it("sort as the posts do", async () => {
    expect((await recordKey("2026-10-01T00:00:00Z", "z")) < (await recordKey("2026-10-02T00:00:00Z", "a"))).toBe(true);
  });
});

describe("links in a post", () => {
  it.each([
    ["See https://a.example.com/x, please", ["https://a.example.com/x"]],
    ["(https://a.example.com/x)", ["https://a.example.com/x"]],
    ["https://a.example.com/x_(y) and http://b.example.com/?q=1!", ["https://a.example.com/x_(y)", "http://b.example.com/?q=1"]],
    ["no link", []],
  ])("are found in %j", (text, uris) => {
    expect(linkFacets(text).map(({ features: [link] }) => link.uri)).toEqual(uris);
  });
});
