import { MillraceError, namedBatch, now, sql } from "millrace";
import { audit, type Operator } from "millrace/operate";
import { placed } from "millrace/worker";
import type { Answered, Ask, Budget, BudgetState } from "./budget.ts";

/** Bounds of what is asked. */
export const BUDGET_LIMITS = {
  /** Largest limit: ten thousand milliards, far from where whole numbers end. */
  limitCents: 1_000_000_000_000_000,
  askCents: 1_000_000_000_000,
  /** A hold lasts a day unless the asker says otherwise; a month at most, so that none is forgotten for ever. */
  holdSeconds: { least: 1, usual: 86_400, most: 30 * 86_400 },
} as const;

/** One account's budget. It comes into being with its first limit or charge. */
export function budgetOf(env: Env, tenantId: string, account: string): DurableObjectStub<Budget> {
  return env.BUDGET.get(env.BUDGET.idFromName(`${tenantId}/${account}`), placed(env));
}

/** Accounts of one tenant that have a limit. */
const MAX_ACCOUNTS = 10_000;

/**
 * Sets an account's limit. Its row of the audit is there before: no limit changes without one. Errors: `invalid_transition` for one account
 * more than a tenant may have.
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
      INSERT INTO budget_accounts (tenant_id, account, since_at) SELECT ${tenantId}, ${account}, ${now}
      WHERE EXISTS (SELECT 1 FROM budget_accounts WHERE tenant_id = ${tenantId} AND account = ${account})
        OR (SELECT count(*) FROM budget_accounts WHERE tenant_id = ${tenantId}) < ${MAX_ACCOUNTS}
      ON CONFLICT (tenant_id, account) DO UPDATE SET account = excluded.account
      RETURNING account`,
    audited: audit(by, action, false),
  });
  if (known.length > 0) return budget.setLimit(limitCents, by.actor);
  throw new MillraceError(
    "invalid_transition",
    `A tenant has at most ${MAX_ACCOUNTS} accounts with a limit: use one that has one already.`,
    { audited: true },
  );
}

/**
 * May this account spend so much? If so, it is held until its charge comes, it is released or it expires. The key names what is to be
 * paid for: asking again with it holds nothing more. Errors: `idempotency_key_reused` when the key was granted another amount.
 */
export async function canSpend(env: Env, tenantId: string, account: string, ask: Ask): Promise<Answered> {
  const answered = await budgetOf(env, tenantId, account).ask(ask);
  if (answered) return answered;
  throw new MillraceError(
    "idempotency_key_reused",
    "This key was granted another amount, which still stands. Give a new wish its own key; to repeat the old one, ask for its amount.",
  );
}
