import { articlePrompt } from "../content/prompt.ts";
import type { Research } from "../content/research.ts";
import { defineStep, type EffectCall } from "../engine/index.ts";
import { text } from "../providers/index.ts";

/** Has a model write an article. The upstream remembers the key (AI Gateway and the embedded writer do), so an answer that was lost is not paid for again. */
export const writeArticle = defineStep({
  effect: "keyed",
  timeout: "2 minutes",
  run: ({ input, key, signal, env }: EffectCall<Research>) => text(env).generate(articlePrompt(input), { key, signal }),
});
