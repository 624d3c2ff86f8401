import { describe, expect, it } from "vitest";
import { type TextRequest, text } from "../../src/providers/index.ts";

const P: TextRequest = { prompt: "P", maxTokens: 9 };
const usage = { prompt_tokens: 3, completion_tokens: 4 };

describe("Workers AI", () => {
  const asked: { model: string; input: object; options: object | undefined }[] = [];
  const workersAi = (run: () => Promise<unknown>, more: object = {}) =>
    text({
      TEXT_PROVIDER: "workers-ai",
      TEXT_MODEL: "@cf/m",
      AI: {
        run(model, input, options) {
          asked.push({ model, input, options });
          return run();
        },
      },
      ...more,
    });
  const answering = (answer: unknown, request: TextRequest = P) => workersAi(async () => answer).generate(request, { key: "k" });

  it.each([
    ["its own format", { response: "Hello.", usage }, { model: "@cf/m", text: "Hello.", usage: { input: 3, output: 4 } }],
    [
      "a chat completion",
      { model: "m", choices: [{ message: { content: "Hello." }, finish_reason: "stop" }], usage },
      { model: "m", text: "Hello." },
    ],
    ["the format of Workers AI without usage", { response: "Hello." }, { text: "Hello.", usage: { input: null, output: null } }],
    ["JSON that is already parsed", { response: { title: "T" }, usage }, { text: '{"title":"T"}' }],
    ["half of a surrogate pair", { response: "Tea \ud83d", usage }, { text: "Tea \ufffd" }],
    ["nothing", { response: null, usage }, { text: "" }],
  ])("a Workers AI answer is read from %s", async (_, answer, read) => {
    expect(await answering(answer)).toMatchObject({ ending: "whole", ...read });
  });

  it("an invalid Workers AI answer is treated as unreadable", async () => {
    expect(await answering({ shape: "other" })).toMatchObject({ ending: "unreadable", text: "" });
  });

  it("a Workers AI call passes the key to a gateway, and has a token limit and a schema", async () => {
    asked.length = 0;
    await answering({ response: "x", usage }, { ...P, json: { name: "n", schema: { type: "object" } } });
    await workersAi(async () => ({ response: "x", usage }), { TEXT_GATEWAY: "none" }).generate(P, { key: "k" });
    expect(asked).toMatchObject([
      {
        model: "@cf/m",
        input: { max_tokens: 9, response_format: { type: "json_schema", json_schema: { type: "object" } } },
        options: { gateway: { id: "default", cacheKey: "k", cacheTtl: 604_800 } },
      },
      { options: {} },
    ]);
    expect(asked[1]?.options).not.toHaveProperty("gateway");
  });

  it("a used-up Workers AI allowance is treated as a truncated text", async () => {
    expect(await answering({ response: "Hel", usage }, { ...P, maxTokens: 4 })).toMatchObject({ ending: "truncated" });
  });

  it("a Workers AI answer that does not match the schema is treated as invalid text", async () => {
    const failed = workersAi(() => Promise.reject(new Error("5024: JSON Mode couldn't be met"))).generate(P, { key: "k" });
    await expect(failed).resolves.toMatchObject({ ending: "whole", text: expect.stringContaining("JSON Mode"), usage: { output: null } });
  });

  it.each([
    ["3040: Capacity temporarily exceeded, please try again.", "retry_after"],
    ["AiError: 5007: No such model @cf/m or task", "not_retryable"],
    ["Network connection lost", "unavailable"],
  ])("the Workers AI error %s is reported by name", async (message, code) => {
    const failed = workersAi(() => Promise.reject(new Error(message))).generate(P, { key: "k" });
    await expect(failed).rejects.toMatchObject({ code });
  });
});
