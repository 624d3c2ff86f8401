import type { Style } from "../brand/templates.ts";
import type { ArticleAsk, ArticleResearch } from "./article-request.ts";
import type { BadAnswer } from "./bad-answer.ts";
import { promptOf } from "./prompts.ts";
import type { SynthesisAsk } from "./synthesis.ts";

/** Most tokens of an answer: below the output limit of current models, and above the need of any article. */
const MAX_TOKENS = 32_768;

/** The first request for an article. */
export function firstAsk({ brand, keyword, sources, synthesis }: ArticleResearch, prompt: string, style?: Style): ArticleAsk {
  const research = { brand, keyword, sources, ...(synthesis && { synthesis }) };
  return { research, ...(style && { style }), prompt, maxTokens: promptOf(prompt).maxTokens };
}

/** The first request for a synthesis. */
export function firstSynthesis(research: SynthesisAsk["research"], prompt: string): SynthesisAsk {
  return { research, prompt, maxTokens: promptOf(prompt).maxTokens };
}

/**
 * True if one more answer may be paid for automatically: the first answer was bad, and a second one is likely to be better. A refusal would
 * be repeated. Further requests are decided by an operator.
 */
export function mayAskAgain(attempt: number, bad: BadAnswer): boolean {
  return attempt === 1 && bad !== "refused";
}

/** The request after a bad answer: twice the tokens after truncation, the problem after an invalid answer, otherwise the same. */
export function nextAsk<Ask extends ArticleAsk | SynthesisAsk>(
  { problem: _, ...ask }: Ask,
  { bad, problem }: { bad: BadAnswer; problem: string },
  prompt: string,
): Ask {
  return {
    ...ask,
    prompt,
    maxTokens: bad === "truncated" ? Math.min(ask.maxTokens * 2, MAX_TOKENS) : ask.maxTokens,
    ...(bad === "malformed" && { problem }),
  } as Ask;
}
