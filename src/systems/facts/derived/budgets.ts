import { MillraceError, namedBatch, sql } from "millrace";
import { audit, type Operator } from "millrace/operate";
import { placed } from "millrace/worker";
import type { Answered, Ask, Budget, BudgetState } from "./budget.ts";

/** Limits of a budget's requests. */
export const BUDGET_LIMITS = {
  /** Maximum limit of a budget: 1e15 cents, which is below the largest exact integer (9e15). */
  limitCents: 1_000_000_000_000_000,
  askCents: 1_000_000_000_000,
  /** A hold lasts a day by default and at most a month, so that no hold is permanent. */
  holdSeconds: { least: 1, usual: 86_400, most: 30 * 86_400 },
} as const;

/** Returns the Durable Object of an account's budget. The object's tables are created with the first limit or charge. */
export function budgetOf(env: Env, tenantId: string, account: string): DurableObjectStub<Budget> {
  return env.BUDGET.get(env.BUDGET.idFromName(`${tenantId}/${account}`), placed(env));
}

/** Maximum number of accounts of one tenant with a limit. */
const MAX_ACCOUNTS = 10_000;

/**
 * Sets an account's limit. The audit row is written first, so no limit changes without an audit row. Throws `invalid_transition`
 * above the tenant's maximum number of accounts.
 */
export async function setLimit(env: Env, by: Operator, account: string, limitCents: number): Promise<BudgetState> {
  const { tenantId } = by;
  const budget = budgetOf(env, tenantId, account);
  const { limit_cents: before } = await budget.state();
  const detail = { limit_cents: limitCents };
  const changed = { detail, before: { limit_cents: before }, after: detail };
  const action = { id: crypto.randomUUID(), verb: "limit", target: account, instanceId: null, reason: "", ...changed } as const;
  const { known } = await namedBatch(env.DB, {
    known: sql`
      INSERT INTO budget_accounts (tenant_id, account, since_at) SELECT ${tenantId}, ${account}, ${sql.now}
      WHERE EXISTS (SELECT 1 FROM budget_accounts WHERE tenant_id = ${tenantId} AND account = ${account})
        OR (SELECT count(*) FROM budget_accounts WHERE tenant_id = ${tenantId}) < ${MAX_ACCOUNTS}
      ON CONFLICT (tenant_id, account) DO UPDATE SET account = excluded.account
      RETURNING account`,
    audited: audit(by, action, false),
  });
  if (known.length > 0) return budget.setLimit(limitCents, by.actor);
  throw new MillraceError("invalid_transition", `A tenant has at most ${MAX_ACCOUNTS} accounts with a limit: use one of these.`, {
    audited: true,
  });
}

/**
 * Asks whether an account may spend an amount. If so, the amount is held until its charge arrives, or the hold is released or expires. The
 * key identifies the purpose of the request, so that a repeated request holds no further amount. Throws `idempotency_key_reused` if the key
 * was used for another amount.
 */
export async function canSpend(env: Env, tenantId: string, account: string, ask: Ask): Promise<Answered> {
  const answered = await budgetOf(env, tenantId, account).ask(ask);
  if (answered) return answered;
  throw new MillraceError(
    "idempotency_key_reused",
    "This key was granted another amount, which is still held. Use a new key for a new request; to repeat the earlier one, send its amount.",
  );
}
