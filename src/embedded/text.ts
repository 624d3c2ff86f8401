import { Hono } from "hono";
import { texts } from "millrace";
import * as z from "zod";
import { composeArticle, composeSynthesis } from "./composer.ts";
import { type EmbeddedEnv, hasBearer, ledgerOf } from "./env.ts";
import type { BadAnswer } from "./ledger.ts";

/** The average number of characters in a token, by OpenAI's documented estimate for English. */
const CHARACTERS_PER_TOKEN = 4;

/** The answer schemas that the embedded writer supports: articles and syntheses. */
const AnswerSchema = z.union([
  z.object({ required: z.array(z.enum(["title", "description", "body_markdown"])) }),
  z.object({ required: z.array(z.enum(["title", "summary", "key_points", "tags"])) }),
]);

const ChatRequest = z.object({
  model: z.string().min(1),
  messages: z.array(z.object({ role: z.enum(["system", "developer", "user", "assistant"]), content: z.string() })).min(1),
  max_tokens: z.int().positive().optional(),
  max_completion_tokens: z.int().positive().optional(),
  stream: z.literal(false, "is not done here: this writer answers whole").nullish(),
  response_format: z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("text") }),
      z.object({ type: z.literal("json_object") }),
      z.object({ type: z.literal("json_schema"), json_schema: z.object({ name: z.string(), schema: AnswerSchema }) }),
    ])
    .optional(),
});

type ChatRequest = z.infer<typeof ChatRequest>;

/**
 * A writer with OpenAI's chat completions API. A request with a known `Idempotency-Key` gets the first answer to that key again, byte for
 * byte, without a charge.
 */
export const text = new Hono<{ Bindings: EmbeddedEnv }>().post("/v1/chat/completions", async (context) => {
  if (!hasBearer(context.req, context.env.TEXT_TOKEN)) return context.json(textError(401, "Incorrect API key provided."), 401);

  const request = ChatRequest.safeParse(await context.req.json().catch(() => undefined));
  if (!request.success) return context.json(textError(400, z.prettifyError(request.error)), 400);

  const key = context.req.header("idempotency-key") ?? null;
  const prompt = request.data.messages.findLast(({ role }) => role === "user")?.content ?? "";
  const ledger = ledgerOf(context.env);
  const fault = await ledger.takeAnswerFault(key, prompt);
  const answer = JSON.stringify(completionOf(request.data, prompt, fault));
  const fingerprint = await sha256(await context.req.text());

  const body = await ledger.charge({ upstream: "text", key, subject: prompt }, fingerprint, answer);
  if (body === null) return context.json(textError(422, "This Idempotency-Key came with another request before."), 422);
  return context.body(fault === "cut" ? body.slice(0, body.length / 2) : body, 200, { "content-type": "application/json" });
});

export function textError(status: number, message: string): object {
  return { error: { message, type: status < 500 ? "invalid_request_error" : "server_error", param: null, code: null } };
}

function completionOf(request: ChatRequest, prompt: string, fault: BadAnswer | null): object {
  const { content, refusal, finish_reason } = written(request, prompt, fault);
  const prompt_tokens = tokensIn(request.messages.map((message) => message.content).join(""));
  const completion_tokens = tokensIn(content ?? refusal ?? "");
  return {
    id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
    object: "chat.completion",
    created: Math.floor(Date.now() / 1000),
    model: request.model,
    choices: [{ index: 0, message: { role: "assistant", content, refusal }, logprobs: null, finish_reason }],
    usage: {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  };
}

/**
 * Returns the writer's answer and its finish reason. The answer is an article or a synthesis within the token limit, or the unusable answer
 * that a fault rule requires.
 */
function written(request: ChatRequest, prompt: string, fault: BadAnswer | null) {
  const article = composeArticle(prompt);
  const json = request.response_format !== undefined && request.response_format.type !== "text";
  // The prompt also names the fields of the answer, for models that do not support schemas.
  const isSynthesis = request.messages.some(({ content }) => content.includes('"key_points":') && content.includes('"tags":'));
  const whole = isSynthesis
    ? JSON.stringify(composeSynthesis(prompt))
    : json
      ? JSON.stringify(article)
      : `# ${article.title}\n\n${article.body_markdown}`;
  const allowed = (request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY) * CHARACTERS_PER_TOKEN;
  const content = texts.beginning(whole, allowed);
  switch (fault) {
    case "truncated":
      return { content: texts.beginning(content, content.length / 2), refusal: null, finish_reason: "length" };
    case "refused":
      return { content: null, refusal: "I'm sorry, but I can't help with that.", finish_reason: "stop" };
    case "empty":
      return { content: "", refusal: null, finish_reason: "stop" };
    case "malformed":
      return { content: `Sure! Here is what I would write about it: ${article.description}`, refusal: null, finish_reason: "stop" };
    case "chatty":
      return { content: chatty(content), refusal: null, finish_reason: "stop" };
    case "cut":
    case null:
      return { content, refusal: null, finish_reason: content.length < whole.length ? "length" : "stop" };
  }
}

/** Returns an article that is surrounded by the model's reasoning, because some servers return reasoning in the answer's text. */
function chatty(content: string): string {
  return `<think>The template says {title}. I answer {"title": "…"}.</think>\n\nUse {title}.\n\`\`\`json\n${content}\n\`\`\`\n\nIs {title} right?`;
}

function tokensIn(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN);
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest).toHex();
}
