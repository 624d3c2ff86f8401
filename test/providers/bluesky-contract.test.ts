import { env } from "cloudflare:workers";
import { type LexiconDoc, Lexicons } from "@atproto/lexicon";
import { describe, expect, it } from "vitest";
import { recordKey, social } from "../../src/providers/index.ts";
import { blueskySocial } from "../../src/providers/social.ts";
import { fresh } from "../api/client.ts";
import published from "../contracts/bluesky.json" with { type: "json" };

const lexicons = new Lexicons(published.lexicons as unknown as LexiconDoc[]);
const createdAt = "2026-10-01T12:00:00.000Z";
const rkey = await recordKey(createdAt, "contract");
const post = { text: "Tea 茶, brewed 👩‍🌾: https://shop.example.com/tea.", createdAt, rkey };

interface Exchange {
  procedure: string;
  input: { record?: unknown };
  output: unknown;
}

/**
 * The adapter on the embedded server under a separate name, without an existing session, and every request and response between the two.
 */
function overheard() {
  const exchanges: Exchange[] = [];
  const upstream = {
    name: "social",
    url: `https://${fresh("pds")}.example.com`,
    credential: { variable: "SOCIAL_PASSWORD", value: "embedded" },
    async fetch(request: Request): Promise<Response> {
      const input = await request.clone().json<{ record?: unknown }>();
      const { pathname } = new URL(request.url);
      const answer = await env.UPSTREAMS.fetch(new Request(`https://social.embedded${pathname}`, request));
      exchanges.push({ procedure: pathname.replace("/xrpc/", ""), input, output: await answer.clone().json() });
      return answer;
    },
  };
  return { exchanges, port: blueskySocial(upstream, "brand.test") };
}

describe("The Bluesky adapter and AT Protocol's published lexicons", () => {
  it("every request of the Bluesky adapter and every response of the embedded server is valid, the post included", async () => {
    const { exchanges, port } = overheard();
    await port.post(post, { key: "k" });
    await port.remove(rkey, { key: "k" });

    expect(exchanges.map(({ procedure }) => procedure)).toEqual([
      "com.atproto.server.createSession",
      "com.atproto.repo.putRecord",
      "com.atproto.repo.deleteRecord",
    ]);
    for (const { procedure, input, output } of exchanges) {
      lexicons.assertValidXrpcInput(procedure, input);
      lexicons.assertValidXrpcOutput(procedure, output);
    }
    lexicons.assertValidRecord("app.bsky.feed.post", exchanges[1]?.input.record);
  });

  it("the embedded Bluesky server returns a record in the required form", async () => {
    await social(env).post(post, { key: "k" });
    const query = new URLSearchParams({ repo: "did:web:brand.test", collection: "app.bsky.feed.post", rkey });
    const answer = await env.UPSTREAMS.fetch(`https://social.embedded/xrpc/com.atproto.repo.getRecord?${query}`);
    lexicons.assertValidXrpcOutput("com.atproto.repo.getRecord", await answer.json());
  });

  const record = { $type: "app.bsky.feed.post", createdAt, text: "Hi." };
  const facet = { index: { byteStart: -1, byteEnd: 2 }, features: [{ $type: "app.bsky.richtext.facet#link", uri: "https://a.example" }] };
  it.each([
    ["a text of 301 characters", { ...record, text: "👩‍🌾".repeat(301) }],
    ["a text of 3001 bytes", { ...record, text: "茶".repeat(1001) }],
    ["an invalid date", { ...record, createdAt: "yesterday" }],
    ["a link that begins before the text", { ...record, facets: [facet] }],
  ])("the embedded Bluesky server refuses the requests that a real one refuses: %s", async (_, wrong) => {
    expect(() => lexicons.assertValidRecord("app.bsky.feed.post", wrong)).toThrow();
    const asking = { identifier: "brand.test", password: "embedded" };
    const call = (procedure: string, body: object, accessJwt = "") =>
      env.UPSTREAMS.fetch(`https://social.embedded/xrpc/${procedure}`, {
        method: "POST",
        headers: { authorization: `Bearer ${accessJwt}` },
        body: JSON.stringify(body),
      });
    const { did, accessJwt } = await (await call("com.atproto.server.createSession", asking)).json<{ did: string; accessJwt: string }>();
    const input = { repo: did, collection: "app.bsky.feed.post", rkey, record: wrong };
    expect((await call("com.atproto.repo.putRecord", input, accessJwt)).status).toBe(400);
  });
});
