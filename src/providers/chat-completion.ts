import * as z from "zod";
import type { TextAnswer, TextRequest } from "./text.ts";

// A model's answer is paid for, so a missing or invalid field is dropped and never fails the answer.
const word = z.string().nullish().catch(null);
const count = z.int().min(0).nullish().catch(null);
/** A part of the text of a completion. A part that contains the model's reasoning, or that contains no text, is ignored. */
const part = z
  .object({ type: z.string().optional(), text: z.string() })
  .transform(({ type = "", text }) => (/think|reason/.test(type) ? "" : text))
  .catch("");

/**
 * A chat completion by OpenAI's specification and its variants: `content` is null with a refusal or a tool call, a list of parts with some
 * models; `usage` is missing in the responses of some servers.
 */
export const ChatCompletion = z.object({
  id: word,
  model: word,
  choices: z
    .array(
      z.object({
        message: z
          .object({
            content: z
              .union([z.string(), z.array(part).transform((parts) => parts.join(""))])
              .nullish()
              .catch(null),
            refusal: word,
          })
          .nullish()
          .catch(null),
        finish_reason: word,
      }),
    )
    .min(1),
  usage: z
    .object({
      prompt_tokens: count,
      completion_tokens: count,
      prompt_tokens_details: z.object({ cached_tokens: count }).nullish().catch(null),
      completion_tokens_details: z.object({ reasoning_tokens: count }).nullish().catch(null),
    })
    .nullish()
    .catch(null),
});

/**
 * A completion without a choice, which some servers return, for example after a content filter. Such a completion is paid for, so the
 * completion's token counts are read.
 */
export const EmptyCompletion = ChatCompletion.extend({
  object: word,
  choices: z
    .array(z.never())
    .nullish()
    .transform(() => []),
}).refine(({ object, usage }) => object === "chat.completion" || (!object && typeof usage?.prompt_tokens === "number"));

export type ChatCompletion = z.infer<typeof ChatCompletion>;

export function messagesOf({ system, prompt }: TextRequest): { role: "system" | "user"; content: string }[] {
  const user = { role: "user" as const, content: prompt };
  return system === undefined ? [user] : [{ role: "system", content: system }, user];
}

/**
 * Creates the result for a successful response in an unknown format. The response may or may not have been paid for. `asked` is the
 * requested model.
 */
export function unreadable(asked: string): TextAnswer {
  const usage = { input: null, output: null, cached: null, reasoning: null };
  return { text: "", ending: "unreadable", refusal: null, finish: null, id: null, model: asked, usage };
}

/**
 * Converts a chat completion to the model's answer. `asked` is the requested model, which replaces a missing model name in the completion.
 */
export function readCompletion(completion: ChatCompletion | z.infer<typeof EmptyCompletion>, asked: string): TextAnswer {
  const [choice] = completion.choices;
  const refusal = choice?.message?.refusal || null;
  const finish = choice?.finish_reason ?? null;
  const refused = refusal !== null || finish === "content_filter";
  // OpenRouter returns "error" if the model failed before the end of the answer.
  const truncated = finish === "length" || finish === "error";
  const { usage } = completion;
  return {
    text: choice?.message?.content?.trim() ?? "",
    ending: refused ? "refused" : truncated ? "truncated" : "whole",
    refusal,
    finish,
    id: completion.id ?? null,
    model: completion.model || asked,
    usage: {
      input: usage?.prompt_tokens ?? null,
      output: usage?.completion_tokens ?? null,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? null,
      reasoning: usage?.completion_tokens_details?.reasoning_tokens ?? null,
    },
  };
}
