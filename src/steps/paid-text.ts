import { type EffectCall, notRetryable } from "millrace";
import { type TextAnswer, type TextRequest, text } from "../providers/index.ts";
import type { Unusable } from "../systems/content/usable.ts";
import { maySpend, type Refused, type Spender } from "./ceiling.ts";
import type { Answered } from "./until-usable.ts";

/**
 * Calls a model if the budget allows the call, and reads the model's answer. An unusable answer is also recorded as an outcome, because the
 * answer was paid for.
 */
export async function paidText<Good>(
  { input, key, signal, trace, env }: EffectCall<Spender>,
  request: TextRequest,
  read: (answer: TextAnswer) => { good: Good } | Unusable,
): Promise<Refused | Answered<Good>> {
  const spent = await maySpend(env, "TEXT_CENTS", input, key);
  if ("refused" in spent && input.isLast) throw notRetryable(spent.refused);
  if ("refused" in spent) return spent;
  const answer = await text(env, input.tenantId).generate(request, { key, signal, trace });
  const { id, model, finish, usage } = answer;
  return { ...read(answer), paid: { id, model, finish, usage }, spent };
}
