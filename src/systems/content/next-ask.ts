import type { ArticleAsk } from "./article-request.ts";
import type { BadAnswer } from "./bad-answer.ts";
import { promptOf } from "./prompts.ts";
import type { Research } from "./research.ts";

/** Below the output limit of current models, and above the need of any article. */
const MAX_TOKENS = 32_768;

/** The first request for an article. */
export function firstAsk({ brand, keyword, sources }: Research, prompt: string): ArticleAsk {
  return { research: { brand, keyword, sources }, prompt, maxTokens: promptOf(prompt).maxTokens };
}

/**
 * True if one more answer may be paid for automatically: the first answer was bad, and a second one is likely to be better. A refusal would
 * be repeated. Further requests are decided by an operator.
 */
export function mayAskAgain(attempt: number, bad: BadAnswer): boolean {
  return attempt === 1 && bad !== "refused";
}

/** The request after a bad answer: twice the tokens after truncation, the problem after an invalid answer, otherwise the same. */
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
