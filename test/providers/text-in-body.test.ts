import type { MillraceError } from "millrace";
import { describe, expect, it } from "vitest";
import { MAX_DELAY_SECONDS } from "../../packages/millrace/src/contract/queue.ts";
import { openAiText } from "../../src/providers/openai-text.ts";
import { braveSearch } from "../../src/providers/search.ts";
import { scripted } from "./embedded.ts";

/** The longest wait: the year 3000 is further in the future. */
const DAYS = MAX_DELAY_SECONDS * 1000;
const usage = { prompt_tokens: 3, completion_tokens: 4 };
const ask = (answer: Response) => openAiText(scripted(answer), "gpt").generate({ prompt: "P", maxTokens: 9 }, { key: "k" });

describe("A text server's response", () => {
  it.each([
    ["no choices", { object: "chat.completion", choices: [], usage }, { input: 3, output: 4 }],
    ["an empty list, and usage", { choices: [], usage }, { input: 3, output: 4 }],
    ["usage alone", { usage }, { input: 3, output: 4 }],
    ["its name alone", { object: "chat.completion", choices: null }, { input: null, output: null }],
  ])("a completion with %s is read as an empty answer that is paid for", async (_, body, counts) => {
    await expect(ask(Response.json(body))).resolves.toMatchObject({ ending: "whole", text: "", usage: counts });
  });

  it.each([
    [402, { code: 402, message: "Insufficient credits" }, {}],
    [429, { code: "insufficient_quota", message: "You exceeded your quota" }, {}],
    [429, { type: "insufficient_quota", code: 429, message: "You exceeded your quota" }, {}],
    [429, { code: "rate_limit_exceeded", message: "Slow" }, { "retry-after": "7" }],
    [429, { code: 429, message: "Slow" }, { "retry-after-ms": "1234" }],
    [503, { code: 503, message: "Overloaded" }, { "retry-after": "3" }],
    [400, { code: "content_filter", message: "Filtered" }, {}],
    [401, { type: "authentication_error", message: "Bad key" }, {}],
  ])(
    "a 200 response with a body, or a choice, that is an error of %i %o is handled as that error response",
    async (status, error, headers) => {
      const failureOf = (body: object, status: number) =>
        ask(Response.json(body, { status, headers })).then(
          () => expect.unreachable("the call should have failed"),
          ({ code, message, detail }: MillraceError) => ({ code, message, detail }),
        );
      const itself = await failureOf({ error }, status);
      expect(await failureOf({ error }, 200)).toEqual(itself);
      expect(await failureOf({ error, choices: [] }, 200)).toEqual(itself);
      expect(await failureOf({ choices: [{ error, message: { content: "" }, finish_reason: "error" }], usage }, 200)).toEqual(itself);
    },
  );

  it("an error in a 200 response without a status of its own is reported with its body, and its Retry-After is observed", async () => {
    const oops = (headers = {}) => ask(Response.json({ error: { code: "oops", message: "x" } }, { headers }));
    await expect(oops()).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("answered 200, and its body is an error (x)"),
    });
    await expect(oops({ "retry-after": "9" })).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: 9000 } });
  });

  it("the text written before a choice failed is kept, because it is paid for", async () => {
    const answer = Response.json({ choices: [{ error: { code: 502 }, message: { content: "Half" }, finish_reason: "error" }], usage });
    await expect(ask(answer)).resolves.toMatchObject({ ending: "truncated", text: "Half", usage: { output: 4 } });
  });

  it.each([
    [403, {}, { code: 403, message: "Your input was flagged", metadata: { reasons: ["x"] } }, { code: "answer_refused" }],
    [403, {}, { message: "No access" }, { code: "not_retryable", message: expect.stringContaining("Check") }],
    [402, {}, { message: "x" }, { code: "not_retryable" }],
    [405, {}, { message: "x" }, { code: "not_retryable" }],
    [413, {}, { message: "x" }, { code: "not_retryable" }],
    [451, {}, { message: "x" }, { code: "not_retryable" }],
    [529, { "retry-after": "7" }, { message: "x" }, { code: "retry_after", detail: { delayMs: 7000 } }],
    [529, {}, { message: "x" }, { code: "unavailable" }],
    [429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" }, { message: "x" }, { detail: { delayMs: 9000 } }],
    [429, { "x-ratelimit-remaining": "3", "x-ratelimit-reset": "9" }, { message: "x" }, { detail: { delayMs: 30_000 } }],
    [429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "32503680000" }, { message: "x" }, { detail: { delayMs: DAYS } }],
    [429, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "32503680000000" }, { message: "x" }, { detail: { delayMs: DAYS } }],
  ])("a response of %i with %o and the error %o is handled as that error", async (status, headers, error, failure) => {
    await expect(ask(Response.json({ error }, { status, headers: headers as Record<string, string> }))).rejects.toMatchObject(failure);
  });

  it("a 402 of the search, which means no credit, is not retried", async () => {
    const found = braveSearch(scripted(Response.json({ message: "x" }, { status: 402 }))).search("tea", { key: "k" });
    await expect(found).rejects.toMatchObject({ code: "not_retryable" });
  });
});
