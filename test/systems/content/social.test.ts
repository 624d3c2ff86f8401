import { env } from "cloudflare:workers";
import fc from "fast-check";
import { ids } from "millrace";
import { describe, expect, it } from "vitest";
import { announcement } from "../../../src/systems/content/announcement.ts";
import { callerWith, fresh, reaches, until } from "../../api/client.ts";
import { ledger } from "../../providers/embedded.ts";
import { draft, publish } from "./article.ts";

const url = "https://shop.example.com/pages/t/acme/green-tea-012345";
const graphemes = (text: string) => Array.from(new Intl.Segmenter().segment(text)).length;
const bytes = (text: string) => new TextEncoder().encode(text).byteLength;

/** The content of a post, from the record in the social service. */
async function postOf(uri: string): Promise<{ text: string; facets: { features: { uri: string }[] }[] }> {
  const [repo = "", collection = "", rkey = ""] = uri.replace("at://", "").split("/");
  const query = new URLSearchParams({ repo, collection, rkey });
  const answer = await env.UPSTREAMS.fetch(`https://social.embedded/xrpc/com.atproto.repo.getRecord?${query}`);
  return (await answer.json<{ value: never }>()).value;
}

describe("A published article", () => {
  it("a published article is announced once, with a link to its page", async () => {
    const caller = await callerWith();
    const title = fresh("Tea");
    const article = await publish(caller, await draft(caller, { text: `# ${title}\n\nText.` }));
    await reaches(caller, ids.instance(caller.tenantId, "post-to-social", article.id), "complete");
    const { post_uri, instances } = (await caller.get(`/v1/articles/${article.id}`)).body;
    expect(instances.social).toMatchObject({ status: "complete" });
    const { text, facets } = await postOf(post_uri);
    expect(text).toBe(`New on acme: ${title} ${article.url}`);
    expect(facets.map(({ features: [link] }) => link?.uri)).toEqual([article.url]);
    expect((await ledger({ upstream: "social", match: title })).calls.map(({ outcome }) => outcome)).toEqual(["created"]);
  });

  it.each([
    ["a long title", `# ${"Everything there is to know about green tea, ".repeat(20)}`],
    ["a long word", `# ${"茶".repeat(900)}`],
    ["families", `# ${"👩‍👩‍👧‍👦".repeat(290)}`],
    ["letters with many combining marks", `# ${`a${"\u0301".repeat(40)}`.repeat(280)}`],
  ])("a published article with %s is announced within the maximum length of a post, with its complete link", async (_, text) => {
    const caller = await callerWith();
    const article = await publish(caller, await draft(caller, { text: `${text}\n\nText.` }));
    const { body } = await until(
      () => caller.get(`/v1/articles/${article.id}`),
      ({ body }) => body.post_uri !== null,
    );
    const { text: posted, facets } = await postOf(body.post_uri);
    expect(posted).toMatch(/^New on acme: .+… http/s);
    expect(posted.endsWith(` ${article.url}`)).toBe(true);
    expect(facets.map(({ features: [link] }) => link?.uri)).toEqual([article.url]);
  });
});

describe("An article that is removed, or not yet published,", () => {
  it("an article that is removed, or not yet published, is not announced, without an error", async () => {
    const caller = await callerWith();
    const title = fresh("Tea");
    const { id } = await draft(caller, { text: `# ${title}\n\nText.` });
    const { body } = await caller.post("/v1/commands", { type: "social.create", payload: { content_id: id, brand: "acme" } });
    await reaches(caller, body.instance_id, "complete");
    const { items } = (await caller.get(`/v1/instances/${body.instance_id}/effects`)).body;
    expect(items[0].output).toEqual({ state: "skipped", why: "The article is not published: its status is draft." });
    expect((await caller.get(`/v1/articles/${id}`)).body.post_uri).toBeNull();
    expect((await ledger({ upstream: "social", match: title })).calls).toEqual([]);
  });
});

describe("An announcement's text", () => {
  it("an announcement's text fits into a post for any title, and ends with the URL", () => {
    const title = fc.string({
      unit: fc.oneof(fc.constantFrom("a", " ", "é", "茶", "👩‍👩‍👧‍👦", "\u0301", "\n"), fc.string({ maxLength: 9 })),
      maxLength: 700,
    });
    fc.assert(
      fc.property(title, (title) => {
        const text = announcement({ brand: "acme", title, url });
        expect(graphemes(text)).toBeLessThanOrEqual(300);
        expect(bytes(text)).toBeLessThanOrEqual(3000);
        expect(text.endsWith(` ${url}`)).toBe(true);
      }),
    );
  });

  it("an announcement's text has the complete title if it fits, and is otherwise truncated after a word", () => {
    expect(announcement({ brand: "acme", title: "Green tea", url })).toBe(`New on acme: Green tea ${url}`);
    const room = 300 - "New on acme:  ".length - url.length;
    expect(announcement({ brand: "acme", title: "a".repeat(room), url })).toBe(`New on acme: ${"a".repeat(room)} ${url}`);
    const long = announcement({ brand: "acme", title: "four ".repeat(100), url });
    expect(long).toMatch(/ four… https/);
    expect(graphemes(long)).toBeGreaterThan(290);
  });

  it("an announcement's text has no URL when the URL alone would be too long", () => {
    const text = announcement({ brand: "acme", title: "Green tea", url: `https://shop.example.com/${"x".repeat(300)}` });
    expect(text).toBe("New on acme: Green tea");
  });
});
