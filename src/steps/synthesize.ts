import { defineStep, type EffectCall } from "millrace";
import { readSynthesis, type SynthesisAsk, synthesisRequest } from "../systems/content/synthesis.ts";
import type { Spender } from "./ceiling.ts";
import { paidText } from "./paid-text.ts";

/**
 * Makes a model summarize the sources of a keyword. Like `writeArticle`, the step has the effect class `keyed`, so a lost answer is not
 * paid for twice.
 */
export const synthesize = defineStep({
  effect: "keyed",
  timeout: "5 minutes",
  run: (call: EffectCall<Spender & { ask: SynthesisAsk }>) => paidText(call, synthesisRequest(call.input.ask), readSynthesis),
});
