import { defineStep, type EffectCall, notRetryable } from "millrace";
import { text } from "../providers/index.ts";
import { readArticle, type WrittenArticle } from "../systems/content/article-answer.ts";
import { type ArticleAsk, articleRequest } from "../systems/content/article-request.ts";
import type { BadAnswer } from "../systems/content/bad-answer.ts";
import type { Paid } from "../systems/content/text-calls.ts";
import { maySpend, type Refused, type Spender, type Spent } from "./ceiling.ts";

/** A paid answer: an article, or why it is unusable. */
export type Written = ({ article: WrittenArticle } | { bad: BadAnswer; problem: string }) & { paid: Paid; spent: Spent };

/**
 * Makes a model write an article, if that may be paid. An unusable answer is an outcome too, because it was paid, and is recorded. The
 * upstream remembers the key (AI Gateway and the embedded writer do), so a lost answer is not paid twice.
 */
export const writeArticle = defineStep({
  effect: "keyed",
  timeout: "5 minutes",
  async run({ input, key, signal, trace, env }: EffectCall<Spender & { ask: ArticleAsk }>): Promise<Refused | Written> {
    const { ask, isLast } = input;
    const spent = await maySpend(env, "TEXT_CENTS", input, key);
    if ("refused" in spent && isLast) throw notRetryable(spent.refused);
    if ("refused" in spent) return spent;
    const answer = await text(env).generate(articleRequest(ask), { key, signal, trace });
    const { id, model, finish, usage } = answer;
    return { ...readArticle(ask.prompt, answer), paid: { id, model, finish, usage }, spent };
  },
});
