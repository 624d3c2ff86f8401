import * as z from "zod";
import { MillraceError, messageOf, notRetryable, retryAfter } from "../engine/index.ts";
import { RATE_LIMITED_DELAY_MS } from "./refusal.ts";
import { ChatCompletion, type GeneratedText, messagesOf, readCompletion, type Text } from "./text.ts";

/** As much of the Workers AI binding as chat needs. */
export interface WorkersAi {
  run(model: string, input: Record<string, unknown>): Promise<unknown>;
}

/** What most chat models of Workers AI answer; the newer ones answer a chat completion. */
const WorkersAiAnswer = z.object({
  response: z.string(),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }),
});

// The binding names its failures only by a number at the head of the message.
const OUT_OF_CAPACITY = new Set(["3036", "3040"]);
const FINAL = new Set(["3006", "3041", "5004", "5007", "5018"]);

/** Chat models of Workers AI, through its binding. It takes no key: a repeat is a second paid call. */
export function workersAiText(ai: WorkersAi, model: string): Text {
  return {
    async generate(request) {
      const answer = await ai.run(model, { messages: messagesOf(request), max_tokens: request.maxTokens }).catch((error: unknown) => {
        throw failure(error);
      });
      return readAnswer(model, answer, request.maxTokens);
    },
  };
}

function readAnswer(model: string, answer: unknown, maxTokens = Number.POSITIVE_INFINITY): GeneratedText {
  const completion = ChatCompletion.safeParse(answer);
  if (completion.success) return readCompletion(completion.data);

  const plain = WorkersAiAnswer.safeParse(answer);
  if (!plain.success) {
    const issues = plain.error.issues.map(({ path, message }) => ({ path: path.join("."), message }));
    throw new MillraceError(
      "unavailable",
      `Workers AI answered in a format this adapter does not speak: ${issues[0]?.path}: ${issues[0]?.message}. ` +
        "Check that TEXT_MODEL names a chat model.",
      { issues },
    );
  }
  const { response: content, usage } = plain.data;
  // This format has no finish_reason: using up the allowance is the only sign of having been cut off.
  const finish_reason = usage.completion_tokens >= maxTokens ? "length" : "stop";
  return readCompletion({ model, choices: [{ message: { content }, finish_reason }], usage });
}

function failure(error: unknown): MillraceError {
  const code = /\b(\d{4}):/.exec(messageOf(error))?.[1] ?? "";
  if (OUT_OF_CAPACITY.has(code)) return retryAfter(RATE_LIMITED_DELAY_MS, `Workers AI is out of capacity (${code}).`);
  if (FINAL.has(code)) return notRetryable(`Workers AI refused the request (${code}). Check TEXT_MODEL and the prompt.`);
  return new MillraceError("unavailable", "Workers AI gave no answer. Whether it was paid for is unknown.", { cause: error });
}
