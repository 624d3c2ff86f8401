import { describe, expect, it } from "vitest";
import { detailOf, isDefiniteRefusal } from "../../packages/millrace/src/contract/errors.ts";
import { MAX_DELAY_SECONDS } from "../../packages/millrace/src/contract/queue.ts";
import { hubspotCrm } from "../../src/providers/hubspot.ts";
import { openAiText } from "../../src/providers/openai-text.ts";
import { httpPages } from "../../src/providers/pages.ts";
import { braveSearch } from "../../src/providers/search.ts";
import { blueskySocial } from "../../src/providers/social.ts";
import { wordpressPages } from "../../src/providers/wordpress.ts";
import { pageOf } from "../wordpress/site.ts";
import { scripted } from "./embedded.ts";

const failureOf = (...answers: (Response | Error)[]) =>
  braveSearch(scripted(...answers))
    .search("tea", { key: "k" })
    .then(
      () => expect.unreachable("the call should have failed"),
      (error: unknown) => error,
    );

const answering = (status: number, headers: Record<string, string> = {}, body = "{}") => new Response(body, { status, headers });

describe("the meaning of an upstream's response", () => {
  it.each([
    [429, { "retry-after": "7" }, "retry_after", 7_000],
    [429, {}, "retry_after", 30_000],
    [503, { "retry-after": "120" }, "retry_after", 120_000],
  ])("an upstream response of %i with %o requests a later retry: no effect happened", async (status, headers, code, delayMs) => {
    const error = await failureOf(answering(status, headers));
    expect(error).toMatchObject({ code, detail: { delayMs, upstreamStatus: status } });
    expect(isDefiniteRefusal(error)).toBe(true);
  });

  it.each([
    [409, {}, 2_000],
    [425, { "retry-after": "7" }, 7_000],
  ])(
    "an upstream response of %i with %o means that the key is in progress: retry later, the outcome is still unknown",
    async (status, headers, delayMs) => {
      const error = await failureOf(answering(status, headers));
      expect(error).toMatchObject({ code: "in_progress", detail: { delayMs, upstreamStatus: status } });
      expect(isDefiniteRefusal(error)).toBe(false);
    },
  );

  it.each([400, 401, 403, 404, 410, 422])("an upstream response of %i is final: a retry cannot succeed", async (status) => {
    expect(await failureOf(answering(status))).toMatchObject({ code: "not_retryable", detail: { upstreamStatus: status } });
  });

  it("another 4xx is a refusal that the step's policy may retry", async () => {
    expect(await failureOf(answering(408))).toMatchObject({ code: "upstream_refused" });
  });

  it.each([500, 502, 503])("an upstream response of %i leaves the outcome unknown", async (status) => {
    const error = await failureOf(answering(status));
    expect(error).toMatchObject({ code: "unavailable", detail: { upstreamStatus: status } });
    expect(isDefiniteRefusal(error)).toBe(false);
  });

  it("a broken connection leaves the outcome unknown", async () => {
    const error = await failureOf(new Error("Network connection lost"));
    expect(error).toMatchObject({ code: "unavailable", message: expect.stringContaining("The outcome is unknown") });
  });

  it("a redirect is not followed, because the redirected request would contain the credential", async () => {
    const upstream = scripted(answering(302, { location: "https://elsewhere.example.com/" }));
    await expect(braveSearch(upstream).search("tea", { key: "k" })).rejects.toMatchObject({ code: "not_retryable" });
    expect(upstream.requests).toHaveLength(1);
  });

  it("a response in another format is an error that names the field", async () => {
    const server = scripted(Response.json({ did: "did:plc:a", accessJwt: 1 }));
    const post = { rkey: "3k2a", text: "Tea.", createdAt: "2026-10-01T12:00:00.000Z" };
    const error = await blueskySocial(server, "odd.example.com")
      .post(post, { key: "k" })
      .catch((error: unknown) => error);
    expect(error).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("accessJwt"),
      detail: { issues: [{ path: "accessJwt" }] },
    });
    expect(isDefiniteRefusal(error)).toBe(false);
  });

  it("a response that is not JSON is reported as such", async () => {
    expect(await failureOf(new Response("<html>"))).toMatchObject({ message: expect.stringContaining("(the whole answer)") });
  });
});

describe("the text of an error message", () => {
  it("an error message quotes the upstream's text and names the variable to check", async () => {
    const error = await failureOf(Response.json({ error: { message: "Bad token" } }, { status: 401 }));
    expect(error).toMatchObject({ message: "search answered 401 (Bad token). Check SEARCH_TOKEN." });
  });

  it.each([
    [[{ error: { code: 400, message: "Bad model" } }], "Bad model"],
    [{ detail: [{ loc: ["body", "q"], msg: "field required" }] }, "field required"],
    [{ message: { detail: [{ msg: "too long" }] } }, "too long"],
    [{ error: null, message: "No route" }, "No route"],
    [{ error: "AuthMissing", message: 7, detail: "No token" }, "AuthMissing: No token"],
    [{ error: true, message: { text: "x" } }, '{"error":true,"message":{"text":"x"}}'],
    [{ reason: "No such thing" }, '{"reason":"No such thing"}'],
  ])("an error message quotes %j", async (body, words) => {
    expect(await failureOf(Response.json(body, { status: 400 }))).toMatchObject({ message: `search answered 400 (${words}).` });
  });

  it("an error message quotes nothing of a body without an error text", async () => {
    expect(await failureOf(answering(400))).toMatchObject({ message: "search answered 400." });
  });

  it("an error message omits the credential if the upstream repeats it", async () => {
    const error = await failureOf(new Response("no such token: s3cret-token", { status: 403 }));
    expect(error).toMatchObject({ message: expect.stringContaining("no such token: ***") });
  });

  it("an error message truncates a long quote", async () => {
    const error = await failureOf(new Response("x".repeat(5_000), { status: 400 }));
    expect((error as Error).message.length).toBeLessThan(250);
  });
});

/** Each connector, called once. */
const CONNECTORS: [string, (upstream: ReturnType<typeof scripted>) => Promise<unknown>][] = [
  ["search", (upstream) => braveSearch(upstream).search("tea", { key: "k" })],
  ["text", (upstream) => openAiText(upstream, "m").generate({ prompt: "Tea.", maxTokens: 10 }, { key: "k" })],
  ["pages", (upstream) => httpPages(upstream, "store").put(pageOf("tea"), { key: "k" })],
  ["WordPress", (upstream) => wordpressPages(upstream, "store", "editor").put(pageOf("tea"), { key: "k" })],
  ["social", (upstream) => blueskySocial(upstream, "a.example").remove("3k2a", { key: "k" })],
  ["CRM", (upstream) => hubspotCrm(upstream, "millrace_key", { take: async () => {}, heed: async () => 0 }).erase("1", { key: "k" })],
];

/** Headers with a past time, or an invalid one. */
const NO_WAITS: Record<string, string>[] = [
  { "retry-after": "0" },
  { "retry-after": "Sat, 28 Nov 2020 13:00:00 GMT" },
  { "retry-after": "Saturday, 28-Nov-20 13:00:00 GMT" },
  { "retry-after": "2.5" },
  { "retry-after": "-5" },
  { "retry-after": "1, 2" },
  { "retry-after": "2001-05-01" },
  { "ratelimit-reset": "1600000000" },
  { "retry-after": "0", "ratelimit-reset": "1600000000" },
  { "retry-after-ms": "0" },
  { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "0s" },
];

/** JSON with half of a surrogate pair in its texts, as escapes, next to a whole pair and an escaped backslash. */
const halved = (answer: unknown) => new Response(JSON.stringify(answer).replaceAll("@", String.raw`\ud83d \ud83c\udf75 \\ud83d`));
const MENDED = "\ufffd \u{1f375} \\ud83d";

it.each<[string, (upstream: ReturnType<typeof scripted>) => Promise<unknown>, unknown, unknown]>([
  [
    "text",
    (upstream) => openAiText(upstream, "m").generate({ prompt: "Tea.", maxTokens: 10 }, { key: "k" }),
    { id: "a@", model: "b@", choices: [{ message: { content: "c@" }, finish_reason: "d@" }] },
    { id: `a${MENDED}`, model: `b${MENDED}`, text: `c${MENDED}`, finish: `d${MENDED}` },
  ],
  [
    "search",
    (upstream) => braveSearch(upstream).search("tea", { key: "k" }),
    { type: "search", web: { results: [{ title: "a@", url: "https://a.example/@", description: "c@" }] } },
    [{ title: `a${MENDED}`, url: `https://a.example/${MENDED}`, description: `c${MENDED}` }],
  ],
  [
    "WordPress",
    (upstream) => wordpressPages(upstream, "store", "editor").find(pageOf("tea"), { key: "k" }),
    [{ id: 1, slug: pageOf("tea").slug, status: "publish", link: "https://a.example/@", date: null, modified_gmt: "b@" }],
    { url: `https://a.example/${MENDED}`, etag: `"1-b${MENDED}"` },
  ],
  [
    "pages",
    (upstream) => httpPages(upstream, "store").put(pageOf("tea"), { key: "k" }),
    { url: "https://a.example/", etag: "b@" },
    {
      etag: `b${MENDED}`,
    },
  ],
])("half of a surrogate pair in a response for %s is read as U+FFFD, because no database could store it", async (_, call, answer, read) => {
  expect(await call(scripted(halved(answer)))).toMatchObject(read as object);
});

describe.each(CONNECTORS)("the connector for %s", (_, call) => {
  const delayAfter = async (status: number, headers: Record<string, string>) => {
    const body = JSON.stringify({ status: "error", message: "Busy.", category: "RATE_LIMITS" });
    const error: unknown = await call(scripted(answering(status, headers, body))).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "retry_after" });
    return detailOf(error).delayMs;
  };

  it.each(NO_WAITS)("a connector handles a 429 with %o like one without a Retry-After", async (headers) => {
    expect(await delayAfter(429, headers)).toBe(await delayAfter(429, {}));
  });

  it("a connector handles a 503 with Retry-After: 0 like one without a Retry-After", async () => {
    expect(await delayAfter(503, { "retry-after": "0" })).toBe(30_000);
  });

  it("a connector waits for the time in a 429, at most 12 hours", async () => {
    expect([await delayAfter(429, { "retry-after": "7" }), await delayAfter(429, { "retry-after": "9".repeat(30) })]).toEqual([
      7_000,
      MAX_DELAY_SECONDS * 1000,
    ]);
  });
});
