import { errors, MillraceError, notRetryable } from "millrace";
import * as z from "zod";
import { ChatCompletion, messagesOf, readCompletion, unreadable } from "./chat-completion.ts";
import { jsonOf } from "./json.ts";
import { GATEWAY_CACHE_TTL_SECONDS } from "./openai-text.ts";
import { comeBack } from "./refusal.ts";
import type { Text, TextAnswer, TextRequest } from "./text.ts";

/** The part of the Workers AI binding that chat models need. */
export interface WorkersAi {
  run(model: string, input: Record<string, unknown>, options?: WorkersAiOptions): Promise<unknown>;
}

interface WorkersAiOptions {
  gateway?: { id: string; cacheKey: string; cacheTtl: number };
  signal?: AbortSignal;
}

/**
 * The response of older chat models of Workers AI. Newer models return a chat completion. In JSON mode `response` is an object and not a
 * string.
 */
const WorkersAiAnswer = z.object({
  response: z.union([z.string(), z.looseObject({})]).nullable(),
  usage: z.unknown().optional(),
});

// The binding identifies its errors only by a number at the start of the message.
const OUT_OF_CAPACITY = new Set(["3036", "3040"]);
const FINAL = new Set(["3006", "3041", "5004", "5007", "5018"]);

/**
 * Chat models of Workers AI, through its binding and an AI Gateway, whose cache uses the engine's idempotency key. The binding itself
 * accepts no key, so without the gateway a repeated call would be paid for again. With the name `none`, calls use no gateway.
 */
export function workersAiText(ai: WorkersAi, model: string, gateway: string): Text {
  return {
    async generate(request, { key, signal }) {
      const cache = gateway === "none" ? {} : { gateway: { id: gateway, cacheKey: key, cacheTtl: GATEWAY_CACHE_TTL_SECONDS } };
      const input = { messages: messagesOf(request), max_tokens: request.maxTokens, response_format: formatOf(request) };
      const answer = await ai.run(model, input, { ...cache, ...(signal && { signal }) }).catch((error: unknown) => {
        // The binding throws this error for a model that did not follow the schema. The answer of the model was paid for, and the error's
        // message replaces the answer's text.
        if (errors.messageOf(error).includes("JSON Mode couldn't be met")) return { response: errors.messageOf(error), usage: null };
        throw failure(error);
      });
      return readAnswer(model, jsonOf(JSON.stringify(answer) ?? ""), request.maxTokens);
    },
  };
}

/** The binding expects only the schema, but OpenAI's API also expects a name and a strictness flag. */
function formatOf({ json }: TextRequest): object | undefined {
  return json && { type: "json_schema", json_schema: json.schema };
}

function readAnswer(model: string, answer: unknown, maxTokens: number): TextAnswer {
  const completion = ChatCompletion.safeParse(answer);
  if (completion.success) return readCompletion(completion.data, model);

  const plain = WorkersAiAnswer.safeParse(answer);
  if (!plain.success) return unreadable(model);
  const { response, usage } = plain.data;
  const content = typeof response === "object" && response !== null ? JSON.stringify(response) : response;
  const read = readCompletion(ChatCompletion.parse({ choices: [{ message: { content } }], usage }), model);
  // This response format has no finish_reason, so the use of all tokens is the only sign of truncation.
  return (read.usage.output ?? 0) >= maxTokens ? { ...read, ending: "truncated" } : read;
}

function failure(error: unknown): MillraceError {
  const code = /\b(\d{4}):/.exec(errors.messageOf(error))?.[1] ?? "";
  if (OUT_OF_CAPACITY.has(code)) return comeBack(undefined, `Workers AI is out of capacity (${code}).`);
  if (FINAL.has(code)) return notRetryable(`Workers AI refused the request (${code}). Check TEXT_MODEL and the prompt.`);
  return new MillraceError("unavailable", "Workers AI did not respond. It may have been paid for.", { cause: error });
}
