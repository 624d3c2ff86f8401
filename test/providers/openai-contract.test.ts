import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { JSON_FORMATS, openAiText } from "../../src/providers/openai-text.ts";
import { articleRequest } from "../../src/systems/content/article-request.ts";
import { firstAsk } from "../../src/systems/content/next-ask.ts";
import { type Contract, conforms } from "../contracts/check.ts";
import published from "../contracts/openai-chat.json";
import { inject, scripted } from "./embedded.ts";

const openai = published as unknown as Contract;
afterEach(() => inject());

const research = {
  id: "r",
  tenantId: "acme",
  brand: "acme",
  keyword: "cold brew",
  sources: [{ title: "Steeping", url: "https://guides.example.com/steeping", description: "Twelve hours." }],
};
const prompts = ["article.v1", "article.v2"];

/** The body that is sent for an article. */
async function bodyFor(prompt: string, format: (typeof JSON_FORMATS)[number]): Promise<Record<string, unknown>> {
  const server = scripted(Response.json({ choices: [{ message: { content: "x" } }] }));
  await openAiText(server, "gpt-4.1-mini", { json: format }).generate(articleRequest(firstAsk(research, prompt)), { key: "k" });
  return (await server.requests[0]?.json()) as Record<string, unknown>;
}

/** The fields of the published request, its own and the inherited ones. */
function namedFields(): string[] {
  const fields = (schema: { properties?: object; allOf?: object[]; $ref?: string }): string[] => [
    ...Object.keys(schema.properties ?? {}),
    ...(schema.allOf ?? []).flatMap(fields),
    ...(schema.$ref ? fields(openai.$defs[schema.$ref.replace("#/$defs/", "")] as object) : []),
  ];
  return fields(openai.$defs.CreateChatCompletionRequest as object);
}

it.each(prompts.flatMap((prompt) => JSON_FORMATS.map((format) => [prompt, format] as const)))(
  "a request from %s, with JSON requested by %s, conforms to OpenAI's published schema",
  async (prompt, format) => {
    const body = await bodyFor(prompt, format);
    expect(conforms(openai, "CreateChatCompletionRequest", body)).toEqual([]);
    // The published schema permits unknown fields; the API does not.
    expect(Object.keys(body).filter((field) => !namedFields().includes(field))).toEqual([]);
  },
);

it("a request that OpenAI would refuse is distinguished from an accepted request", async () => {
  const body = await bodyFor("article.v2", "json_schema");
  expect(conforms(openai, "CreateChatCompletionRequest", { ...body, messages: [] })).not.toEqual([]);
  expect(conforms(openai, "CreateChatCompletionRequest", { ...body, max_completion_tokens: "many" })).not.toEqual([]);
  expect(
    conforms(openai, "CreateChatCompletionRequest", { ...body, response_format: { type: "json_schema", json_schema: {} } }),
  ).not.toEqual([]);
});

const write = (body: object, token = "embedded") =>
  env.UPSTREAMS.fetch("https://text.embedded/v1/chat/completions", {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });

it.each(["good", "truncated", "refused", "empty", "malformed"] as const)(
  "the embedded writer's %s response conforms to OpenAI's published schema",
  async (kind) => {
    if (kind !== "good") await inject({ upstream: "text", match: "", answer: kind, remaining: 1 });
    for (const prompt of prompts) {
      const answer = await write(await bodyFor(prompt, "json_schema"));
      expect(answer.status).toBe(200);
      expect(conforms(openai, "CreateChatCompletionResponse", await answer.json())).toEqual([]);
    }
  },
);

it("the embedded writer's errors have OpenAI's texts", async () => {
  const refusals = [await write({}, "wrong"), await write({ model: "m", messages: [] })];
  expect(refusals.map(({ status }) => status)).toEqual([401, 400]);
  for (const refusal of refusals) expect(conforms(openai, "ErrorResponse", await refusal.json())).toEqual([]);
});
