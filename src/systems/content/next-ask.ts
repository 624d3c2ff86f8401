import type { ArticleAsk } from "./article-request.ts";
import type { BadAnswer } from "./bad-answer.ts";
import { promptOf } from "./prompts.ts";
import type { Research } from "./research.ts";

/** Kept below what the models of today can write at once, and what an article could ever need. */
const MAX_TOKENS = 32_768;

/** The first request for an article. */
export function firstAsk({ brand, keyword, sources }: Research, prompt: string): ArticleAsk {
  return { research: { brand, keyword, sources }, prompt, maxTokens: promptOf(prompt).maxTokens };
}

/**
 * True when the machine may pay for one more answer by itself: the first answer of an instance was bad, and a second one is likely to
 * be better. A refusal would be repeated. Whatever follows is a person's to decide.
 */
export function mayAskAgain(attempt: number, bad: BadAnswer): boolean {
  return attempt === 1 && bad !== "refused";
}

/**
 * What is asked after a bad answer: with twice the tokens if it was cut off, with what was wrong if it was not what was asked for, else the
 * same.
 */
export function nextAsk(
  { research, maxTokens }: ArticleAsk,
  { bad, problem }: { bad: BadAnswer; problem: string },
  prompt: string,
): ArticleAsk {
  return {
    research,
    prompt,
    maxTokens: bad === "truncated" ? Math.min(maxTokens * 2, MAX_TOKENS) : maxTokens,
    ...(bad === "malformed" && { problem }),
  };
}
