import { type Draft, MillraceError } from "millrace";
import { ceilingsOf } from "../messages/budgets.ts";
import { FactObserved } from "../messages/facts.ts";
import type { ProvidersEnv } from "../providers/index.ts";
import { budgetOf, canSpend } from "../systems/facts/derived/budgets.ts";

/** The kinds of paid calls. Each kind is named after the variable with the maximum cost of one call. */
type Priced = "TEXT_CENTS" | "SEARCH_CENTS";

/** A paid call, with its tenant and brand. */
export interface Spender {
  tenantId: string;
  brand: string;
  /** True if the call does not wait any longer. In this case a refusal fails the step. */
  isLast: boolean;
}

/** The cost of a call that the budget allowed, as one charge per account. */
export interface Spent {
  /** The time of the request (ISO 8601). */
  at: string;
  charges: { account: string; amount_cents: number; hold: string }[];
}

/** A call that was not made, because a budget account did not allow the call. Such a call has no cost. */
export interface Refused {
  refused: string;
  account: string;
}

/**
 * Asks the budget whether the app may make a paid call. If the call is allowed, each account with a limit holds the call's price. The hold
 * has the call's own key, so that a repeated request holds no further amount. The hold of a failed call expires within a day. Errors:
 * `config_invalid` for an invalid price of a call.
 */
export async function maySpend(env: Env & Pick<ProvidersEnv, Priced>, kind: Priced, by: Spender, key: string): Promise<Spent | Refused> {
  const amount_cents = priceOf(env, kind);
  const spent: Spent = { at: new Date().toISOString(), charges: [] };
  if (amount_cents === 0) return spent;
  for (const account of ceilingsOf(by.brand)) {
    const ask = { key: `${kind}/${amount_cents}/${key}`, amount_cents, expires_in_seconds: 86_400 };
    const { granted, hold, reason, remaining_cents } = await canSpend(env, by.tenantId, account, ask);
    if (granted && hold !== null) spent.charges.push({ account, amount_cents, hold });
    if (granted || reason === "no_limit") continue;
    for (const held of spent.charges) await budgetOf(env, by.tenantId, held.account).release(held.hold);
    const refused = `The account "${account}" has ${remaining_cents} cents left, and this may cost ${amount_cents}: raise its limit with PUT /v1/budgets/${account}.`;
    return { refused, account };
  }
  return spent;
}

/** Returns the maximum cost of one call in whole cents; 0 if the variable is not set. */
function priceOf(env: Pick<ProvidersEnv, Priced>, kind: Priced): number {
  const said = env[kind] || "0";
  if (/^\d{1,9}$/.test(said)) return Number(said);
  throw new MillraceError("config_invalid", `${kind} is "${said}": set the maximum cost of one call, in whole cents, such as "5".`);
}

/** Returns the facts that charge the paid amounts to these accounts. `name` is unique for the call, so that the call is charged once. */
export function chargesOf({ at, charges }: Spent, name: string): Draft[] {
  return charges.map((payload) =>
    FactObserved.from({ fact_id: name, entity: `account/${payload.account}`, type: "charge", occurred_at: at, payload }),
  );
}
