import { Hono } from "hono";
import * as z from "zod";
import { composeArticle } from "./composer.ts";
import { type EmbeddedEnv, hasBearer, ledgerOf } from "./env.ts";

/** The rule of thumb of OpenAI's own documentation for English. */
const CHARACTERS_PER_TOKEN = 4;

const ChatRequest = z.object({
  model: z.string().min(1),
  messages: z.array(z.object({ role: z.enum(["system", "developer", "user", "assistant"]), content: z.string() })).min(1),
  max_tokens: z.int().positive().optional(),
  max_completion_tokens: z.int().positive().optional(),
});

/** A writer that speaks OpenAI's chat completions. A known `Idempotency-Key` gets its first answer, byte for byte, for free. */
export const text = new Hono<{ Bindings: EmbeddedEnv }>().post("/v1/chat/completions", async (context) => {
  if (!hasBearer(context.req, context.env.TEXT_TOKEN)) return context.json(textError(401, "Incorrect API key provided."), 401);

  const request = ChatRequest.safeParse(await context.req.json().catch(() => undefined));
  if (!request.success) return context.json(textError(400, z.prettifyError(request.error)), 400);

  const key = context.req.header("idempotency-key") ?? null;
  const prompt = request.data.messages.findLast(({ role }) => role === "user")?.content ?? "";
  const answer = JSON.stringify(completionOf(request.data, prompt));
  const fingerprint = await sha256(await context.req.text());

  const body = await ledgerOf(context.env).charge({ upstream: "text", key, subject: prompt }, fingerprint, answer);
  if (body === null) return context.json(textError(422, "This Idempotency-Key came with another request before."), 422);
  return context.body(body, 200, { "content-type": "application/json" });
});

export function textError(status: number, message: string): object {
  return { error: { message, type: status < 500 ? "invalid_request_error" : "server_error", param: null, code: null } };
}

function completionOf(request: z.infer<typeof ChatRequest>, prompt: string): object {
  const whole = composeArticle(prompt);
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY;
  const content = whole.slice(0, maxTokens * CHARACTERS_PER_TOKEN);
  const prompt_tokens = tokensIn(request.messages.map((message) => message.content).join(""));
  const completion_tokens = tokensIn(content);
  return {
    id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
    object: "chat.completion",
    created: Math.floor(Date.now() / 1000),
    model: request.model,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content, refusal: null },
        logprobs: null,
        finish_reason: content.length < whole.length ? "length" : "stop",
      },
    ],
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  };
}

function tokensIn(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN);
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest).toHex();
}
