import { MillraceError, type Routed } from "millrace";
import type { RecordedFact } from "../../../messages/fact.ts";
import { ownFact } from "../own.ts";
import { budgetOf } from "./budgets.ts";

/** Counts a charge in its account's budget. */
export async function spend(told: Routed<RecordedFact<"charge">>): Promise<void> {
  const { entity, sequence, payload } = ownFact(told);
  const { env, envelope } = told;
  const { account, amount_cents, hold } = payload;
  const counted = await budgetOf(env, envelope.tenant_id, account).settle({ entity, sequence, amount_cents, hold });
  if (!counted) throw new MillraceError("invariant", "The account would have spent more cents than can be counted exactly.");
}
