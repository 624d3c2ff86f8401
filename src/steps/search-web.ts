import { defineStep, type EffectCall, notRetryable } from "millrace";
import { type SearchResult, search } from "../providers/index.ts";
import { SYNTHESIS_PROMPT } from "../systems/content/prompts.ts";
import { maySpend, type Refused, type Spender, type Spent } from "./ceiling.ts";

/**
 * Searches the web, if the budget allows the search. A repeated search has no effect except its cost. A recorded search is not repeated.
 */
export const searchWeb = defineStep({
  effect: "natural",
  async run({ input, key, signal, trace, env }: EffectCall<Spender & { query: string }>): Promise<Refused | Searched> {
    const spent = await maySpend(env, "SEARCH_CENTS", input, key);
    if ("refused" in spent && input.isLast) throw notRetryable(spent.refused);
    if ("refused" in spent) return spent;
    // The prompt is recorded with the sources, so that a newer deployment does not change a running instance.
    return { sources: await search(env, input.tenantId).search(input.query, { key, signal, trace }), prompt: SYNTHESIS_PROMPT, spent };
  },
});

interface Searched {
  sources: SearchResult[];
  /** The prompt of the synthesis of these sources. */
  prompt: string;
  spent: Spent;
}
