import type { Style } from "../brand/templates.ts";
import type { ArticleAsk, ArticleResearch } from "./article-request.ts";
import type { BadAnswer } from "./bad-answer.ts";
import { promptOf } from "./prompts.ts";
import type { SynthesisAsk } from "./synthesis.ts";

/** Maximum tokens of an answer: below the output limit of current models, and above the need of any article. */
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
 * True if one more answer of the model may be paid for automatically: the first answer was bad, and a second one is likely to be better. A
 * model's refusal would be repeated. An operator decides about further requests.
 */
export function mayAskAgain(attempt: number, bad: BadAnswer): boolean {
  return attempt === 1 && bad !== "refused";
}

/** Returns the request after a bad answer: twice the tokens after truncation, the problem after an invalid answer, otherwise the same. */
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
