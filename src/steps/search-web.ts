import { defineStep, type EffectCall } from "../engine/index.ts";
import { search } from "../providers/index.ts";

/** Searches the web. Repeating a search harms nobody, it only costs again: once recorded, it is not repeated. */
export const searchWeb = defineStep({
  effect: "natural",
  run: ({ input, key, signal, trace, env }: EffectCall<{ query: string }>) => search(env).search(input.query, { key, signal, trace }),
});
