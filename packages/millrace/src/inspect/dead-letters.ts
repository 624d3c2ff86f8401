import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { type Issue, MillraceError } from "../contract/errors.ts";
import { type Hide, hideAll, hideNothing } from "../contract/hide.ts";
import { parseEntryKey } from "../contract/ids.ts";
import { among, andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { keysetPage, LOOKED_AT, type Page, type PageRequest, type Position } from "../store/d1/paging.ts";
import { atomically, query } from "../store/d1/retry.ts";
import type { LetterState, TriedRepair } from "../store/dead-letters.ts";
import { REVEALED, type Redaction } from "./redaction.ts";

export interface DeadLetterRow {
  id: string;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  correlationId: string | null;
  instanceId: string | null;
  /** An error code, or `exhausted`. */
  reason: string;
  error: string | null;
  issues: Issue[] | null;
  attempts: number;
  firstAt: number;
  capturedAt: number;
  state: LetterState;
  step: string | null;
  upstreamStatus: number | null;
  /** Null for a letter that was captured before causes existed. */
  cause: string | null;
  firstAttemptAt: number | null;
  lastAttemptAt: number | null;
  /** The operator who escalated it, the time and the note. */
  escalation: { by: string; at: number; note: string } | null;
  /** The automatic repair that was tried, at most one. */
  repair: TriedRepair | null;
  /** The message as received; only for a single letter. */
  body?: unknown;
}

/** A reader of the tenant's dead letters. Letters without a tenant need a token that may see them. */
export type DeadLetterReader = Asker;

export function seesUnattributed({ scopes }: DeadLetterReader): boolean {
  return scopes.includes("unattributed");
}

const COLUMNS = fragment(
  `id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id,
    reason, error, issues, attempts, first_at, captured_at, state, step, upstream_status, cause, first_attempt_at, last_attempt_at,
    escalated_at, escalated_by, escalation, repair`,
);

export interface DeadLetterFilter extends PageRequest {
  /** Default `open`. */
  state?: string | undefined;
  queue?: string | undefined;
  reason?: string | undefined;
  type?: string | undefined;
  /** The id of a group of `listLetterCauses`. */
  cause?: string | undefined;
  /** True: escalated letters only; false: the others only. */
  escalated?: boolean | undefined;
}

/** Dead letters in one state, newest first. By queue, reason or type a page may be short or empty and still have a next page. */
export function listDeadLetters(env: EngineEnv, by: DeadLetterReader, filter: DeadLetterFilter): Promise<Page<DeadLetterRow>> {
  const readers = seesUnattributed(by) ? [by.tenantId, null] : [by.tenantId];
  return keysetPage(
    filter,
    ({ capturedAt, id }) => ({ at: capturedAt, id }),
    async (before, limit) => {
      const end = isLookedFor(filter) ? await endOfLook(env, readers, filter, before) : undefined;
      // One statement per tenant reads its index in order; an OR would not.
      const of = (tenantId: string | null) => sql`
        SELECT ${COLUMNS} FROM millrace_dead_letters ${whereLettersAre(filter)} AND tenant_id IS ${tenantId}
          ${andEquals(fragment("queue"), filter.queue)} ${andEquals(fragment("reason"), filter.reason)}
          ${andEquals(fragment("message_type"), filter.type)}
          ${filter.escalated === undefined ? sql`` : filter.escalated ? sql`AND escalated_at IS NOT NULL` : sql`AND escalated_at IS NULL`}
          AND (captured_at, id) < (${before.at}, ${before.id}) AND (captured_at, id) >= (${end?.at ?? 0}, ${end?.id ?? ""})
        ORDER BY captured_at DESC, id DESC LIMIT ${limit}`;
      const letters = (await atomically(env.DB, readers.map(of))).flat().map(asRow);
      return { found: letters.sort(byTime).slice(0, limit), end };
    },
  );
}

function byTime(a: Pick<DeadLetterRow, "capturedAt" | "id">, b: Pick<DeadLetterRow, "capturedAt" | "id">): number {
  return b.capturedAt - a.capturedAt || (a.id < b.id ? 1 : -1);
}

function isLookedFor({ queue, reason, type, ...filter }: DeadLetterFilter): boolean {
  return [queue, reason, type].some((one) => one !== undefined) || (filter.escalated !== undefined && !isInEscalated(filter));
}

function isInEscalated({ state = "open", cause, escalated }: DeadLetterFilter): boolean {
  return escalated === true && state === "open" && cause === undefined;
}

/** The last letter of this page's scan, from the index alone; undefined if fewer remain. */
async function endOfLook(
  { DB }: EngineEnv,
  readers: readonly (string | null)[],
  filter: DeadLetterFilter,
  before: Position,
): Promise<Position | undefined> {
  const ends = await atomically(
    DB,
    readers.map(
      (tenantId) => sql`
      SELECT captured_at AS capturedAt, id FROM millrace_dead_letters ${whereLettersAre(filter)} AND tenant_id IS ${tenantId}
        AND (captured_at, id) < (${before.at}, ${before.id})
      ORDER BY captured_at DESC, id DESC LIMIT 1 OFFSET ${LOOKED_AT - 1}`,
    ),
  );
  const [newest] = (ends.flat() as unknown as { capturedAt: number; id: string }[]).sort(byTime);
  return newest && { at: newest.capturedAt, id: newest.id };
}

/**
 * Selects the index with the fewest rows. Conditions of a partial index are literal text, because SQLite does not match them with a bound
 * value.
 */
export function whereLettersAre(filter: DeadLetterFilter): Statement {
  const { state = "open", cause } = filter;
  if (isInEscalated(filter)) return sql`INDEXED BY millrace_dead_letters_escalated WHERE escalated_at IS NOT NULL AND state = 'open'`;
  if (cause !== undefined) return sql`INDEXED BY millrace_dead_letters_by_cause WHERE cause = ${cause} AND state = ${state}`;
  return sql`INDEXED BY millrace_dead_letters_by_tenant WHERE state = ${state}`;
}

export async function lettersNamed(env: EngineEnv, by: Pick<Asker, "tenantId">, ids: readonly string[]): Promise<DeadLetterRow[]> {
  const rows = await query(
    env.DB,
    sql`SELECT ${COLUMNS} FROM millrace_dead_letters
    WHERE id IN ${among(ids)} AND +tenant_id = ${by.tenantId}`,
  );
  return rows.map(asRow);
}

function visibleTo(by: DeadLetterReader): Statement {
  return seesUnattributed(by) ? sql`(+tenant_id = ${by.tenantId} OR +tenant_id IS NULL)` : sql`+tenant_id = ${by.tenantId}`;
}

/** One dead letter with its message. Errors: `dead_letter_not_found`, also for another tenant's. */
export async function getDeadLetter(env: EngineEnv, by: DeadLetterReader, id: string): Promise<DeadLetterRow> {
  const rows = await query(
    env.DB,
    sql`
      SELECT ${COLUMNS}, body FROM millrace_dead_letters
      WHERE id = ${id} AND ${visibleTo(by)}`,
  );
  const row = rows[0];
  if (!row) {
    // The same error for every invisible id: it does not reveal that the letter exists.
    const beyond = seesUnattributed(by)
      ? ""
      : " that your token may read (a dead letter without a tenant requires the scope `unattributed`)";
    const said = `There is no dead letter ${beginning(id, 64)}${beyond}. List them with GET /v1/dead-letters.`;
    throw new MillraceError("dead_letter_not_found", said);
  }
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
    step: row.step as string | null,
    upstreamStatus: row.upstream_status as number | null,
    cause: row.cause as string | null,
    firstAttemptAt: row.first_attempt_at as number | null,
    lastAttemptAt: row.last_attempt_at as number | null,
    escalation:
      row.escalated_at === null ? null : { by: String(row.escalated_by), at: Number(row.escalated_at), note: String(row.escalation) },
    repair: row.repair ? (JSON.parse(String(row.repair)) as TriedRepair) : null,
  };
}

/** Longest message that is read for a list, in characters (SQLite's `length`). The error of a letter with a longer message is redacted. */
const MAX_READ_BYTES = 32 * 1024;

/** By letter id, a function that redacts the message's sensitive values in an error. */
export async function hideInErrors(
  env: EngineEnv,
  by: DeadLetterReader,
  redaction: Redaction,
  ids: readonly string[],
): Promise<(id: string) => Hide> {
  if (redaction === REVEALED || ids.length === 0) return () => hideNothing;
  const hides = await hidesOfLetters(env, by, redaction, ids);
  return (id) => hides.get(id) ?? hideAll;
}

/** As `hideInErrors`, for ids of letters, instances and effects. */
export async function hideOfTargets(
  env: EngineEnv,
  by: DeadLetterReader,
  redaction: Redaction,
  ids: readonly string[],
): Promise<(id: string) => Hide> {
  if (redaction === REVEALED || ids.length === 0) return () => hideNothing;
  const instanceOf = (id: string) => parseEntryKey(id)?.instanceId ?? id;
  const [letters, ofInstance] = await Promise.all([
    hidesOfLetters(env, by, redaction, ids),
    redaction.ofInstances(env, by, ids.map(instanceOf)),
  ]);
  return (id) => letters.get(id) ?? ofInstance(instanceOf(id));
}

async function hidesOfLetters(
  env: EngineEnv,
  by: DeadLetterReader,
  redaction: Redaction,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Hide>> {
  const rows = await query<{ id: string; queue: string; body: string | null }>(
    env.DB,
    sql`
      SELECT id, queue, iif(length(body) <= ${MAX_READ_BYTES}, body, NULL) AS body FROM millrace_dead_letters
      WHERE id IN ${among(ids)} AND ${visibleTo(by)}`,
  );
  return new Map(rows.map(({ id, queue, body }) => [id, redaction.letter(queue, body === null ? undefined : JSON.parse(body)).hide]));
}
