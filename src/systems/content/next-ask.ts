import type { Style } from "../brand/templates.ts";
import type { ArticleAsk, ArticleResearch } from "./article-request.ts";
import type { BadAnswer } from "./bad-answer.ts";
import { promptOf } from "./prompts.ts";
import type { SynthesisAsk } from "./synthesis.ts";

/** Maximum number of tokens of an answer. The maximum is below the output limit of current models, and more than any article needs. */
const MAX_TOKENS = 32_768;

/** Returns the first request to the model for an article. */
export function firstAsk({ brand, keyword, sources, synthesis }: ArticleResearch, prompt: string, style?: Style): ArticleAsk {
  const research = { brand, keyword, sources, ...(synthesis && { synthesis }) };
  return { research, ...(style && { style }), prompt, maxTokens: promptOf(prompt).maxTokens };
}

/** Returns the first request to the model for a synthesis. */
export function firstSynthesis(research: SynthesisAsk["research"], prompt: string): SynthesisAsk {
  return { research, prompt, maxTokens: promptOf(prompt).maxTokens };
}

/**
 * True if the model may be asked again without an operator. This is the case only after the first answer, unless the model refused, because
 * it would refuse again. An operator decides about further requests.
 */
export function mayAskAgain(attempt: number, bad: BadAnswer): boolean {
  return attempt === 1 && bad !== "refused";
}

/**
 * Returns the request after a bad answer. After a truncated answer the request allows twice as many tokens; after an invalid answer it
 * states the problem. Otherwise the request is the same.
 */
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
