import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { type TextRequest, text } from "../../src/providers/index.ts";
import { openAiText } from "../../src/providers/openai-text.ts";
import { fresh } from "../api/client.ts";
import { inject, ledger, scripted } from "./embedded.ts";

afterEach(() => inject());

const prompt = [
  'Write an article about "green tea" for a tea shop.',
  "Sources:",
  "1. Steeping, explained (https://guides.example.com/steeping): Two minutes are enough.",
  "- [What drinkers want](https://data.example.org/drinkers)",
  "  A survey of 900 people.",
].join("\n");

/** A key that no other test uses. */
const keyOf = (article: string) => `${article}-${RUN}`;
const RUN = fresh("run");
const about = (subject: string): TextRequest => ({ prompt: `Write about ${subject} (${RUN}).`, maxTokens: 4000 });
const P: TextRequest = { prompt: "P", maxTokens: 9 };

describe("The embedded writer", () => {
  it("the embedded writer writes an article from the sources in the prompt", async () => {
    const article = await text(env).generate({ system: "You write for shops.", prompt, maxTokens: 4000 }, { key: keyOf("article-1") });
    expect(article.text).toMatch(/^# Green tea: /);
    expect(article.text).toContain("## Steeping, explained\n\n");
    expect(article.text).toContain("Two minutes are enough.");
    expect(article.text).toContain("## What drinkers want\n\n");
    expect(article.text).toContain("A survey of 900 people.");
    expect(article.text).toContain("- [What drinkers want](https://data.example.org/drinkers)");
    expect(article).toMatchObject({ model: "embedded-writer-1", ending: "whole", finish: "stop", id: expect.stringMatching(/^chatcmpl-/) });
    expect(article.usage.output).toBeGreaterThan(100);
  });

  it("the embedded writer returns the same bytes for a known key, and charges once", async () => {
    const ask = () =>
      env.UPSTREAMS.fetch("https://text.embedded/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer embedded", "idempotency-key": keyOf("article-2") },
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: prompt }] }),
      }).then((answer) => answer.text());
    const answers = await Promise.all([ask(), ask(), ask()]);
    expect(new Set(answers).size).toBe(1);
    expect((await ledger({ match: keyOf("article-2") })).totals.text).toMatchObject({ charged: 1, repeated: 2 });
  });

  it("the embedded writer refuses a request for a stream, and states that it returns complete responses only", async () => {
    const answer = await env.UPSTREAMS.fetch("https://text.embedded/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer embedded" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: prompt }], stream: true }),
    });
    expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("is not done here")]);
  });

  it("the embedded writer charges again under another key", async () => {
    await text(env).generate(about("oolong"), { key: keyOf("article-3") });
    await text(env).generate(about("oolong"), { key: keyOf("article-4") });
    expect((await ledger({ match: `oolong (${RUN})` })).totals.text.charged).toBe(2);
  });

  it("the embedded writer refuses a used key with another request", async () => {
    await text(env).generate(about("matcha"), { key: keyOf("article-5") });
    const again = text(env).generate(about("sencha"), { key: keyOf("article-5") });
    await expect(again).rejects.toMatchObject({ code: "not_retryable", detail: { upstreamStatus: 422 } });
  });

  it("the embedded writer charges once even if its response is lost", async () => {
    await inject({ upstream: "text", match: `pu-erh (${RUN})`, status: 502, remaining: 1, afterEffect: true });
    const generate = () => text(env).generate(about("pu-erh"), { key: keyOf("article-6") });
    await expect(generate()).rejects.toMatchObject({ code: "unavailable" });
    await generate();
    expect((await ledger({ match: keyOf("article-6") })).totals.text).toMatchObject({ charged: 1, repeated: 1, refused: 0 });
  });

  it("the embedded writer stops at the maximum number of tokens of an answer", async () => {
    const cut = await text(env).generate({ prompt, maxTokens: 20 }, { key: keyOf("article-7") });
    expect(cut).toMatchObject({ ending: "truncated", usage: { output: 20 } });
  });

  it("the embedded writer writes invalid answers on request, once per key, and charges for them", async () => {
    await inject({ upstream: "text", match: `hojicha (${RUN})`, answer: "refused", remaining: 2 });
    const ask = (key: string) => text(env).generate(about("hojicha"), { key });
    expect(await ask(keyOf("article-8"))).toMatchObject({ ending: "refused", text: "" });
    expect(await ask(keyOf("article-8"))).toMatchObject({ ending: "refused" });
    expect(await ask(keyOf("article-9"))).toMatchObject({ ending: "refused" });
    expect(await ask(keyOf("article-10"))).toMatchObject({ ending: "whole" });
    expect((await ledger({ match: `hojicha (${RUN})` })).totals.text).toMatchObject({ charged: 3, repeated: 1 });
  });
});

const usage = { prompt_tokens: 3, completion_tokens: 4 };
const completion = (message: object | null, finish_reason: string | null = "stop", more: object = { usage }) =>
  Response.json({ id: "c1", model: "gpt", choices: [{ message, finish_reason }], ...more });
const ask = (answer: Response, request = P) => openAiText(scripted(answer), "gpt").generate(request, { key: "k" });

describe("OpenAI's format", () => {
  it("a request in OpenAI's format contains the key for the vendor and for AI Gateway", async () => {
    const openai = scripted(completion({ content: " Hello. " }));
    const written = await openAiText(openai, "gpt").generate({ system: "S", ...P }, { key: "k1" });
    expect(written).toEqual({
      text: "Hello.",
      ending: "whole",
      refusal: null,
      finish: "stop",
      id: "c1",
      model: "gpt",
      usage: { input: 3, output: 4, cached: null, reasoning: null },
    });
    const [request] = openai.requests;
    expect(request?.url).toBe("https://upstream.example.com/v1/chat/completions");
    expect(Object.fromEntries(request?.headers ?? [])).toMatchObject({
      authorization: "Bearer s3cret-token",
      "idempotency-key": "k1",
      "cf-aig-cache-key": "k1",
    });
    expect(await request?.json()).toEqual({
      model: "gpt",
      messages: [
        { role: "system", content: "S" },
        { role: "user", content: "P" },
      ],
      max_completion_tokens: 9,
    });
  });

  it("a base URL with a path is used unchanged", async () => {
    const gateway = { ...scripted(completion({ content: "Hi" })), url: "https://gateway.example.com/v1/account/gateway/openai/" };
    await openAiText(gateway, "gpt").generate(P, { key: "k" });
    expect(gateway.requests[0]?.url).toBe("https://gateway.example.com/v1/account/gateway/openai/chat/completions");
  });

  it.each([
    ["json_schema", { type: "json_schema", json_schema: { name: "n", schema: { type: "object" }, strict: true } }],
    ["json_object", { type: "json_object" }],
    ["none", undefined],
  ] as const)("a request in OpenAI's format asks for JSON by %s", async (format, asked) => {
    const server = scripted(completion({ content: "{}" }));
    await openAiText(server, "gpt", { json: format }).generate({ ...P, json: { name: "n", schema: { type: "object" } } }, { key: "k" });
    const body = await server.requests[0]?.json<{ response_format?: object }>();
    expect(body?.response_format).toEqual(asked);
  });

  it("a request in OpenAI's format has the token limit in the older field if the server only supports that", async () => {
    const server = scripted(completion({ content: "Hi" }));
    await openAiText(server, "gpt", { limit: "max_tokens" }).generate(P, { key: "k" });
    expect(await server.requests[0]?.json()).toEqual({ model: "gpt", messages: [{ role: "user", content: "P" }], max_tokens: 9 });
  });

  it.each(["TEXT_JSON", "TEXT_LIMIT"])("an unknown value of %s is refused, and the error lists the valid values", (variable) => {
    expect(() => text({ ...env, [variable]: "yaml" })).toThrow(new RegExp(`${variable} is "yaml". Set it to one of: [a-z_]+, [a-z_]+`));
  });

  it("the request format is selected by TEXT_JSON and TEXT_LIMIT", async () => {
    const server = scripted(completion({ content: "Hi" }));
    const dialect = {
      UPSTREAMS: { fetch: (request: Request) => server.fetch(request) },
      TEXT_JSON: "json_object",
      TEXT_LIMIT: "max_tokens",
    };
    await text(dialect as unknown as typeof env).generate({ ...P, json: { name: "n", schema: {} } }, { key: "k" });
    expect(await server.requests[0]?.json()).toMatchObject({ response_format: { type: "json_object" }, max_tokens: 9 });
  });

  it.each([
    [
      "refused",
      completion({ content: null, refusal: "I can't help with that." }),
      { ending: "refused", refusal: "I can't help with that." },
    ],
    ["filtered", completion({ content: "" }, "content_filter"), { ending: "refused", refusal: null }],
    ["empty", completion({ content: "  " }), { ending: "whole", text: "" }],
    [
      "null beside a tool call of the model",
      completion({ content: null, tool_calls: [] }, "tool_calls"),
      { ending: "whole", text: "", finish: "tool_calls" },
    ],
    ["cut off", completion({ content: "Half a sen" }, "length"), { ending: "truncated", text: "Half a sen" }],
    ["all thought", completion({ content: null }, "length"), { ending: "truncated", text: "" }],
    ["without a message", completion(null, "error"), { ending: "truncated", text: "", finish: "error" }],
    [
      "in parts",
      completion({
        content: [
          { type: "text", text: "Hel" },
          { type: "text", text: "lo." },
        ],
      }),
      { text: "Hello." },
    ],
    [
      "a list of text parts and reasoning parts",
      completion({
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "Hm." }] },
          { type: "reasoning", text: "Hm." },
          { type: "text", text: "Hello." },
        ],
      }),
      { text: "Hello." },
    ],
    ["without usage", completion({ content: "Hi" }, "stop", {}), { text: "Hi", usage: { input: null, output: null, cached: null } }],
    [
      "with odd usage",
      completion({ content: "Hi" }, null, { usage: { prompt_tokens: "3" } }),
      { text: "Hi", usage: { input: null, output: null } },
    ],
    [
      "with every count",
      completion({ content: "Hi" }, "stop", {
        usage: { ...usage, prompt_tokens_details: { cached_tokens: 2 }, completion_tokens_details: { reasoning_tokens: 1 } },
      }),
      { usage: { input: 3, output: 4, cached: 2, reasoning: 1 } },
    ],
    ["without a name", Response.json({ choices: [{ message: { content: "Hi" } }] }), { text: "Hi", id: null, model: "gpt", finish: null }],
  ])("an answer that is %s is kept, because it is paid for", async (_, answer, read) => {
    await expect(ask(answer)).resolves.toMatchObject(read);
  });

  it.each([
    ["any other JSON", Response.json({ status: "ok" })],
    [
      "an error that a gateway has cached",
      Response.json({ error: { code: 502, message: "x" } }, { headers: { "cf-aig-cache-status": "HIT" } }),
    ],
  ])("%s is handled as an unreadable answer, because the same key would get the same answer", async (_, answer) => {
    await expect(ask(answer)).resolves.toMatchObject({
      ending: "unreadable",
      text: "",
      model: "gpt",
      usage: { input: null, output: null },
    });
  });

  const failing = (status: number, error: object, headers: Record<string, string> = {}) => Response.json({ error }, { status, headers });

  it.each([
    [
      "an account without credit",
      failing(429, { message: "You exceeded your quota", code: "insufficient_quota" }),
      { code: "not_retryable" },
    ],
    [
      "an account without credit, with the status 402",
      failing(402, { code: 402, message: "Insufficient credits" }),
      { code: "not_retryable" },
    ],
    [
      "the server's rate limit, without a Retry-After",
      failing(429, { message: "Slow down", code: "rate_limit_exceeded" }),
      { detail: { delayMs: 30_000 } },
    ],
    [
      "the server's rate limit, with a delay in seconds",
      failing(429, { message: "Slow" }, { "retry-after": "7" }),
      { detail: { delayMs: 7000 } },
    ],
    [
      "the server's rate limit, with a delay in milliseconds",
      failing(429, { message: "Slow" }, { "retry-after-ms": "1234", "retry-after": "2" }),
      { detail: { delayMs: 1234 } },
    ],
    [
      "the one of several limits that is used up",
      failing(
        429,
        { message: "Slow" },
        {
          "x-ratelimit-remaining-requests": "10",
          "x-ratelimit-reset-requests": "9h",
          "x-ratelimit-remaining-tokens": "0",
          "x-ratelimit-reset-tokens": "1m2.5s",
        },
      ),
      { detail: { delayMs: 62_500 } },
    ],
    [
      "the Retry-After of an overloaded server",
      failing(503, { message: "Overloaded" }, { "retry-after": "3" }),
      { code: "retry_after", detail: { delayMs: 3000 } },
    ],
    ["an overloaded server", failing(503, { message: "Overloaded" }), { code: "unavailable" }],
    ["a content filter that refuses the prompt", failing(400, { message: "Filtered", code: "content_filter" }), { code: "answer_refused" }],
    ["a request that is too long", failing(400, { message: "Too long", code: "context_length_exceeded" }), { code: "not_retryable" }],
    ["an error with the status 200", failing(200, { code: 429, message: "Upstream is busy" }), { code: "retry_after" }],
    ["an error of unknown kind with the status 200", failing(200, { code: "oops", message: "x" }), { code: "unavailable" }],
  ])("a text server's error is reported as: %s", async (_, answer, failure) => {
    await expect(ask(answer)).rejects.toMatchObject(failure);
  });
});
