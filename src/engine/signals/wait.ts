import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { digest } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { batch } from "../store/retry.ts";
import { answerEventType, type Left, markAnswered, SHORTEST_WAIT_MS, TIMER_SKEW_MS } from "./approval.ts";
import { OLDEST_FITTING } from "./assign.ts";

/** The platform's event type for one wait: every wait has its own, because a consumed event can be delivered again to a later wait of the same type. */
export function waitEventType(instanceId: string, label: string): string {
  return `signal-${digest("wait", instanceId, label)}`;
}

/** The run that waits. */
export interface Waiter {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly instanceId: string;
  readonly envelope: Envelope;
}

/** How a wait ended: with its event, as the envelope's JSON, or without one. */
export type WaitEnd = { event: string } | { over: true };

/** How a wait stands: ended, or with so much time left. */
type WaitStanding = WaitEnd | Left;

/**
 * Says that an instance waits for an event about a subject, and takes one that came early. The row makes it hold through restarts: a wait
 * that once took an event is answered with that same event again, one whose time was over stays so, and the time runs from the first asking.
 * One event serves one wait of an instance.
 */
export async function registerWait(run: Waiter, label: string, type: string, subject: string, timeoutMs: number): Promise<WaitStanding> {
  const { instanceId } = run;
  const { tenant_id } = run.envelope;
  const results = await batch(run.env.DB, [
    sql`
      INSERT INTO waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at, asked_at, due_at)
      VALUES (${instanceId}, ${label}, ${run.workflow}, ${tenant_id}, ${type}, ${subject}, ${waitEventType(instanceId, label)}, ${now}, ${now},
        ${now} + ${timeoutMs})
      ON CONFLICT (instance_id, name) DO UPDATE SET asked_at = excluded.asked_at, due_at = since_at + ${timeoutMs}`,
    sql`
      UPDATE waits SET signal_id = ${OLDEST_FITTING}
      WHERE instance_id = ${instanceId} AND name = ${label} AND signal_id IS NULL AND over_at IS NULL`,
    sql`
      UPDATE instances SET status = 'waiting', updated_at = ${now}
      WHERE id = ${instanceId} AND status IN ('accepted', 'queued', 'running')
        AND EXISTS (SELECT 1 FROM waits WHERE instance_id = ${instanceId} AND name = ${label} AND signal_id IS NULL AND over_at IS NULL)`,
    selectWait(instanceId, label, timeoutMs),
  ]);
  return standing(results.at(-1)?.[0], timeoutMs);
}

/**
 * The platform says that a wait's time is over. The row decides: an event that it holds has won, although nobody was told of it; or else the wait is
 * closed and takes none any more; or the platform's timer was early.
 */
export async function closeWait(run: Waiter, label: string, timeoutMs: number): Promise<WaitStanding> {
  const { instanceId } = run;
  const results = await batch(run.env.DB, [
    sql`
      UPDATE waits SET over_at = ${now}
      WHERE instance_id = ${instanceId} AND name = ${label} AND signal_id IS NULL AND over_at IS NULL
        AND since_at + ${timeoutMs} <= ${now} + ${TIMER_SKEW_MS}`,
    markAnswered(run.envelope.tenant_id, instanceId),
    selectWait(instanceId, label, timeoutMs),
  ]);
  return standing(results.at(-1)?.[0], timeoutMs);
}

/** An operator wants a wait that was over tried anew. Behind the statement that carries the action out. */
export function reopenWait(instanceId: string, label: string | null, actionId: string): Statement {
  return sql`
    UPDATE waits SET over_at = NULL, since_at = ${now}, due_at = due_at - since_at + ${now}
    WHERE instance_id = ${instanceId} AND name = ${label} AND over_at IS NOT NULL
      AND EXISTS (SELECT 1 FROM actions WHERE id = ${actionId} AND result = 'applied')`;
}

/** A restart makes the platform forget what it was told: the events that waits hold are told again. Behind the statement that carries the action out. */
export function forgetTold(instanceId: string, actionId: string): Statement {
  return sql`
    UPDATE waits SET told_at = NULL
    WHERE instance_id = ${instanceId} AND told_at IS NOT NULL AND EXISTS (SELECT 1 FROM actions WHERE id = ${actionId} AND result = 'applied')`;
}

/** The event that a wait took, as JSON; undefined when none came. */
export async function heldSignal({ env, instanceId }: Waiter, label: string): Promise<string | undefined> {
  const [rows] = await batch(env.DB, [selectWait(instanceId, label, 0)]);
  const envelope = rows?.[0]?.envelope;
  return typeof envelope === "string" ? envelope : undefined;
}

function selectWait(instanceId: string, label: string, timeoutMs: number): Statement {
  return sql`
    SELECT w.over_at, w.since_at + ${timeoutMs} - ${now} AS left_ms, ${now} AS at, s.envelope
    FROM waits w LEFT JOIN signals s ON s.id = w.signal_id
    WHERE w.instance_id = ${instanceId} AND w.name = ${label}`;
}

function standing(row: Record<string, unknown> | undefined, timeoutMs: number): WaitStanding {
  if (typeof row?.envelope === "string") return { event: row.envelope };
  if (typeof row?.over_at === "number") return { over: true };
  // The platform takes no time at all for no limit.
  const leftMs = Math.max(SHORTEST_WAIT_MS, Number(row?.left_ms ?? timeoutMs));
  return { leftMs: Math.min(timeoutMs || SHORTEST_WAIT_MS, leftMs), at: Number(row?.at ?? Date.now()) };
}

/** What the waits and the questions of an instance are called in its code, by the platform's event type. */
export interface AwaitedStep {
  name: string;
  /** The event's own type, and what it is about; null for a question. */
  eventType: string | null;
  subject: string | null;
  approvalId: string | null;
}

/** Steps that wait, as the code names them: the platform knows each by an event type of its own. */
export async function awaitedSteps(DB: D1Database, instanceId: string): Promise<ReadonlyMap<string, AwaitedStep>> {
  const [waits = [], questions = []] = await batch(DB, [
    sql`SELECT name, type, subject, event_type FROM waits WHERE instance_id = ${instanceId}`,
    sql`SELECT step, id FROM approvals WHERE instance_id = ${instanceId}`,
  ]);
  return new Map([
    ...waits.map((row): [string, AwaitedStep] => {
      const { name, type, subject, event_type } = row as Record<"name" | "type" | "subject" | "event_type", string>;
      return [event_type, { name, eventType: type, subject, approvalId: null }];
    }),
    ...questions.map((row): [string, AwaitedStep] => {
      const id = String(row.id);
      return [answerEventType(id), { name: String(row.step), eventType: null, subject: null, approvalId: id }];
    }),
  ]);
}
