import { defineStep, type EffectCall } from "millrace";
import { readArticle } from "../systems/content/article-answer.ts";
import { type ArticleAsk, articleRequest } from "../systems/content/article-request.ts";
import type { Spender } from "./ceiling.ts";
import { paidText } from "./paid-text.ts";

/**
 * Makes a model write an article. AI Gateway and the embedded writer remember the idempotency key, so a lost answer is not paid for twice.
 */
export const writeArticle = defineStep({
  effect: "keyed",
  timeout: "5 minutes",
  run: (call: EffectCall<Spender & { ask: ArticleAsk }>) =>
    paidText(call, articleRequest(call.input.ask), (answer) => readArticle(call.input.ask.prompt, answer)),
});
