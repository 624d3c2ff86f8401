import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { type Issue, MillraceError } from "../contract/errors.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { LetterState } from "../store/dead-letters.ts";
import { keysetPage, type Page, type PageRequest } from "../store/paging.ts";
import { atomically, query } from "../store/retry.ts";

/** A dead letter, as people read it. */
export interface DeadLetterRow {
  id: string;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  correlationId: string | null;
  instanceId: string | null;
  /** A code of errors.ts, or `exhausted`. */
  reason: string;
  error: string | null;
  issues: Issue[] | null;
  attempts: number;
  firstAt: number;
  capturedAt: number;
  state: LetterState;
  /** The message as it came; only when one letter is asked for. */
  body?: unknown;
}

/** Whose dead letters: the tenant's; and those that name no tenant, for operators whose token may see them. */
export type DeadLetterReader = Asker;

function seesUnattributed({ scopes }: DeadLetterReader): boolean {
  return scopes.includes("unattributed");
}

const COLUMNS = fragment(
  `id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id,
    reason, error, issues, attempts, first_at, captured_at, state`,
);

export interface DeadLetterFilter extends PageRequest {
  /** Default `open`. */
  state?: string | undefined;
  queue?: string | undefined;
  reason?: string | undefined;
}

/** Dead letters in one state, newest first. */
export function listDeadLetters(env: EngineEnv, by: DeadLetterReader, filter: DeadLetterFilter): Promise<Page<DeadLetterRow>> {
  return keysetPage(
    filter,
    ({ capturedAt, id }) => ({ at: capturedAt, id }),
    async (before, limit) => {
      // One statement a reader: each is read from its index in order, which an OR would not be.
      const of = (tenantId: string | null) => sql`
        SELECT ${COLUMNS} FROM dead_letters
        WHERE tenant_id IS ${tenantId} AND state = ${filter.state ?? "open"}
          ${andEquals(fragment("queue"), filter.queue)} ${andEquals(fragment("reason"), filter.reason)}
          AND (captured_at, id) < (${before.at}, ${before.id})
        ORDER BY captured_at DESC, id DESC LIMIT ${limit}`;
      const found = await atomically(env.DB, seesUnattributed(by) ? [of(by.tenantId), of(null)] : [of(by.tenantId)]);
      const letters = found.flat().map(asRow);
      return letters.sort((a, b) => b.capturedAt - a.capturedAt || (a.id < b.id ? 1 : -1)).slice(0, limit);
    },
  );
}

function visibleTo(by: DeadLetterReader): Statement {
  return seesUnattributed(by) ? sql`(tenant_id = ${by.tenantId} OR tenant_id IS NULL)` : sql`tenant_id = ${by.tenantId}`;
}

/** One dead letter with its message. Errors: `dead_letter_not_found`, also for another tenant's. */
export async function getDeadLetter(env: EngineEnv, by: DeadLetterReader, id: string): Promise<DeadLetterRow> {
  const rows = await query(
    env.DB,
    sql`
      SELECT ${COLUMNS}, body FROM dead_letters
      WHERE id = ${id} AND ${visibleTo(by)}`,
  );
  const row = rows[0];
  if (!row)
    throw new MillraceError("dead_letter_not_found", `There is no dead letter ${beginning(id, 64)}. List them with GET /v1/dead-letters.`);
  return { ...asRow(row), body: JSON.parse(String(row.body)) };
}

function asRow(row: Record<string, unknown>): DeadLetterRow {
  return {
    id: String(row.id),
    queue: String(row.queue),
    messageType: row.message_type as string | null,
    idempotencyKey: row.idempotency_key as string | null,
    correlationId: row.correlation_id as string | null,
    instanceId: row.instance_id as string | null,
    reason: String(row.reason),
    error: row.error as string | null,
    issues: row.issues ? (JSON.parse(String(row.issues)) as Issue[]) : null,
    attempts: Number(row.attempts),
    firstAt: Number(row.first_at),
    capturedAt: Number(row.captured_at),
    state: row.state as DeadLetterRow["state"],
  };
}
