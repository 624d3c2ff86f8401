import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { text } from "../../src/providers/index.ts";
import { openAiText } from "../../src/providers/text.ts";
import { inject, ledger, scripted } from "./embedded.ts";

afterEach(() => inject());

const prompt = [
  'Write an article about "green tea" for a tea shop.',
  "Sources:",
  "1. Steeping, explained (https://guides.example.com/steeping): Two minutes are enough.",
  "- [What drinkers want](https://data.example.org/drinkers)",
  "  A survey of 900 people.",
].join("\n");

describe("text generation", () => {
  it("writes an article from the sources in the prompt", async () => {
    const article = await text(env).generate({ system: "You write for shops.", prompt }, { key: "article-1" });
    expect(article.text).toMatch(/^# Green tea: /);
    expect(article.text).toContain("## Steeping, explained\n\n");
    expect(article.text).toContain("Two minutes are enough.");
    expect(article.text).toContain("## What drinkers want\n\n");
    expect(article.text).toContain("A survey of 900 people.");
    expect(article.text).toContain("- [What drinkers want](https://data.example.org/drinkers)");
    expect(article.model).toBe("embedded-writer-1");
    expect(article.usage.outputTokens).toBeGreaterThan(100);
  });

  it("answers a known key byte for byte and charges once", async () => {
    const ask = () =>
      env.UPSTREAMS.fetch("https://text.embedded/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer embedded", "idempotency-key": "article-2" },
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: prompt }] }),
      }).then((answer) => answer.text());
    const answers = await Promise.all([ask(), ask(), ask()]);
    expect(new Set(answers).size).toBe(1);
    expect((await ledger({ match: "article-2" })).totals.text).toMatchObject({ charged: 1, repeated: 2 });
  });

  it("charges again under another key", async () => {
    await text(env).generate({ prompt: "Write about oolong." }, { key: "article-3" });
    await text(env).generate({ prompt: "Write about oolong." }, { key: "article-4" });
    expect((await ledger({ match: "oolong" })).totals.text.charged).toBe(2);
  });

  it("refuses a key that comes back with another request", async () => {
    await text(env).generate({ prompt: "Write about matcha." }, { key: "article-5" });
    const again = text(env).generate({ prompt: "Write about sencha." }, { key: "article-5" });
    await expect(again).rejects.toMatchObject({ code: "not_retryable", detail: { upstreamStatus: 422 } });
  });

  it("is charged once even when the answer is lost on the way", async () => {
    await inject({ upstream: "text", match: "pu-erh", status: 502, remaining: 1, afterEffect: true });
    const generate = () => text(env).generate({ prompt: "Write about pu-erh." }, { key: "article-6" });
    await expect(generate()).rejects.toMatchObject({ code: "unavailable" });
    await generate();
    expect((await ledger({ match: "article-6" })).totals.text).toMatchObject({ charged: 1, repeated: 1, refused: 0 });
  });

  it("says so when the text was cut off", async () => {
    const cut = text(env).generate({ prompt, maxTokens: 20 }, { key: "article-7" });
    await expect(cut).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("maxTokens") });
  });
});

const completion = (message: object, finish_reason = "stop") =>
  Response.json({ model: "gpt", choices: [{ message, finish_reason }], usage: { prompt_tokens: 1, completion_tokens: 2 } });

describe("OpenAI's format", () => {
  it("carries the key for the vendor and for AI Gateway", async () => {
    const openai = scripted(completion({ content: " Hello. " }));
    const written = await openAiText(openai, "gpt").generate({ system: "S", prompt: "P", maxTokens: 9 }, { key: "k1" });
    expect(written).toEqual({ text: "Hello.", model: "gpt", usage: { inputTokens: 1, outputTokens: 2 } });
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

  it("takes a base with a path as it is", async () => {
    const gateway = { ...scripted(completion({ content: "Hi" })), url: "https://gateway.example.com/v1/account/gateway/openai/" };
    await openAiText(gateway, "gpt").generate({ prompt: "P" }, { key: "k" });
    expect(gateway.requests[0]?.url).toBe("https://gateway.example.com/v1/account/gateway/openai/chat/completions");
  });

  it.each([
    ["refused", completion({ content: null, refusal: "I can't help with that." }), "refused"],
    ["filtered", completion({ content: "" }, "content_filter"), "refused"],
    ["empty", completion({ content: "  " }), "wrote nothing"],
    ["cut off", completion({ content: "Half a sen" }, "length"), "cut off"],
  ])("names an answer that is %s", async (_, answer, words) => {
    const generated = openAiText(scripted(answer), "gpt").generate({ prompt: "P" }, { key: "k" });
    await expect(generated).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining(words) });
  });

  it("does not wait for an account without credit", async () => {
    const answer = Response.json({ error: { message: "You exceeded your quota", code: "insufficient_quota" } }, { status: 429 });
    const generated = openAiText(scripted(answer), "gpt").generate({ prompt: "P" }, { key: "k" });
    await expect(generated).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("credit") });
  });
});

describe("Workers AI", () => {
  const workersAi = (run: () => Promise<unknown>) => text({ TEXT_PROVIDER: "workers-ai", TEXT_MODEL: "@cf/m", AI: { run } });
  const usage = { prompt_tokens: 3, completion_tokens: 4 };

  it.each([
    ["its own format", { response: "Hello.", usage }, "@cf/m"],
    ["a chat completion", { model: "m", choices: [{ message: { content: "Hello." }, finish_reason: "stop" }], usage }, "m"],
  ])("answers in %s", async (_, answer, model) => {
    const written = await workersAi(async () => answer).generate({ prompt: "P" }, { key: "k" });
    expect(written).toEqual({ text: "Hello.", model, usage: { inputTokens: 3, outputTokens: 4 } });
  });

  it("takes a used-up allowance for a text that was cut off", async () => {
    const cut = workersAi(async () => ({ response: "Hel", usage })).generate({ prompt: "P", maxTokens: 4 }, { key: "k" });
    await expect(cut).rejects.toMatchObject({ code: "not_retryable" });
  });

  it.each([
    ["3040: Capacity temporarily exceeded, please try again.", "retry_after"],
    ["AiError: 5007: No such model @cf/m or task", "not_retryable"],
    ["Network connection lost", "unavailable"],
  ])("names the failure %s", async (message, code) => {
    const failed = workersAi(() => Promise.reject(new Error(message))).generate({ prompt: "P" }, { key: "k" });
    await expect(failed).rejects.toMatchObject({ code });
  });
});
