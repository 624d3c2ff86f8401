import { readArticle, type WrittenArticle } from "../content/article-answer.ts";
import { type ArticleAsk, articleRequest } from "../content/article-request.ts";
import type { BadAnswer } from "../content/bad-answer.ts";
import type { Paid } from "../content/text-calls.ts";
import { defineStep, type EffectCall } from "../engine/index.ts";
import { text } from "../providers/index.ts";

/** An answer that was paid for: an article, or why it is none. */
export type Written = { article: WrittenArticle; paid: Paid } | { bad: BadAnswer; problem: string; paid: Paid };

/**
 * Has a model write an article. An answer that cannot be used is an outcome like any other: it was paid for, and is recorded. The
 * upstream remembers the key (AI Gateway and the embedded writer do), so an answer that was lost is not paid for again.
 */
export const writeArticle = defineStep({
  effect: "keyed",
  timeout: "5 minutes",
  async run({ input, key, signal, trace, env }: EffectCall<ArticleAsk>): Promise<Written> {
    const answer = await text(env).generate(articleRequest(input), { key, signal, trace });
    const { id, model, finish, usage } = answer;
    return { ...readArticle(input.prompt, answer), paid: { id, model, finish, usage } };
  },
});
