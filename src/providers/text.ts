import * as z from "zod";
import { type MillraceError, notRetryable } from "../engine/index.ts";
import type { Answer } from "./refusal.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

export interface TextRequest {
  /** How to write. */
  system?: string;
  /** What to write. */
  prompt: string;
  /** The most tokens to write. Default: the model's own limit. */
  maxTokens?: number;
}

export interface GeneratedText {
  text: string;
  /** The model that wrote it, as the provider names it. */
  model: string;
  usage: { inputTokens: number; outputTokens: number };
}

/** Text generation. */
export interface Text {
  /**
   * Writes one text.
   *
   * @throws `not_retryable` also when the model was cut off, refused, or wrote nothing: the same key would only bring
   * back the same answer, so an operator changes the request or retries under a new generation.
   */
  generate(request: TextRequest, options: CallOptions): Promise<GeneratedText>;
}

export const ChatCompletion = z.object({
  model: z.string(),
  choices: z
    .array(
      z.object({
        message: z.object({ content: z.string().nullable(), refusal: z.string().nullish() }),
        finish_reason: z.string().nullish(),
      }),
    )
    .min(1),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }),
});

/** How long AI Gateway remembers an answer: as long as the platform remembers a finished instance. */
const GATEWAY_CACHE_TTL_SECONDS = 7 * 24 * 60 * 60;

/**
 * OpenAI chat completions, and whatever speaks the same. `upstream.url` is a bare origin (`https://api.openai.com`, to
 * which `/v1` is added) or the full base an SDK would take (`https://gateway.ai.cloudflare.com/v1/…/openai`). With
 * Cloudflare AI Gateway in front, the key is the cache key, which makes a repeat free even where the model's vendor
 * ignores `Idempotency-Key`.
 */
export function openAiText(upstream: Upstream, model: string): Text {
  const root = new URL(upstream.url).pathname === "/" ? "/v1" : "";
  return {
    async generate(request, options) {
      const answer = await callUpstream(
        upstream,
        {
          method: "POST",
          path: `${root}/chat/completions`,
          headers: {
            authorization: `Bearer ${upstream.credential.value}`,
            "content-type": "application/json",
            "idempotency-key": options.key,
            "cf-aig-cache-key": options.key,
            "cf-aig-cache-ttl": String(GATEWAY_CACHE_TTL_SECONDS),
          },
          body: JSON.stringify({ model, messages: messagesOf(request), max_completion_tokens: request.maxTokens }),
          meaning: exhaustedQuota,
        },
        ChatCompletion,
        options,
      );
      return readCompletion(answer);
    },
  };
}

export function messagesOf({ system, prompt }: TextRequest): { role: "system" | "user"; content: string }[] {
  const user = { role: "user" as const, content: prompt };
  return system === undefined ? [user] : [{ role: "system", content: system }, user];
}

/** The text of a completion. @throws `not_retryable` when it is cut off, refused or empty. */
export function readCompletion(completion: z.infer<typeof ChatCompletion>): GeneratedText {
  const [choice] = completion.choices;
  if (choice?.message.refusal || choice?.finish_reason === "content_filter") {
    throw notRetryable("The model refused to write this text. Change the prompt, then retry.");
  }
  if (choice?.finish_reason === "length") {
    throw notRetryable("The model was cut off before the text ended. Raise maxTokens or ask for less, then retry.");
  }
  const text = choice?.message.content?.trim();
  if (!text) throw notRetryable("The model wrote nothing. Change the prompt or TEXT_MODEL, then retry.");
  return {
    text,
    model: completion.model,
    usage: { inputTokens: completion.usage.prompt_tokens, outputTokens: completion.usage.completion_tokens },
  };
}

/** OpenAI answers 429 both when we are too fast and when the account is out of money. No wait cures the second. */
function exhaustedQuota({ status, text }: Answer): MillraceError | undefined {
  if (status !== 429 || !text.includes("insufficient_quota")) return undefined;
  return notRetryable("text answered 429: the account has no credit left. Add credit, then retry.", status);
}
