import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { digest } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { markAnswered, waitForEvent } from "../store/instances/wait.ts";
import { askForEvent, closeOverdue, takeEarly } from "../store/waits.ts";
import { answerEventType, type Left, SHORTEST_WAIT_MS, TIMER_SKEW_MS } from "./approval.ts";
import { HELD, type Held } from "./held.ts";

/**
 * The platform's event type for one wait: every wait has its own, because a consumed event can be delivered again to a later wait of the
 * same type.
 */
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
 * Says that an instance waits for an event about a subject, and takes one that came early; held where a person has paused the instance
 * before it waited. The row makes it hold through restarts: a wait
 * that once took an event is answered with that same event again, one whose time was over stays so, and the time runs from the first
 * asking. One event serves one wait of an instance.
 */
export async function registerWait(
  run: Waiter,
  label: string,
  type: string,
  subject: string,
  timeoutMs: number,
): Promise<WaitStanding | Held> {
  const { instanceId } = run;
  const { tenant_id } = run.envelope;
  const eventType = waitEventType(instanceId, label);
  const { wait } = await namedBatch(run.env.DB, {
    asked: askForEvent({ instanceId, name: label, workflow: run.workflow, tenantId: tenant_id, type, subject, eventType, timeoutMs }),
    taken: takeEarly(instanceId, label),
    status: waitForEvent(instanceId, label),
    wait: selectWait(instanceId, label, timeoutMs),
  });
  return wait[0] ? standing(wait[0], timeoutMs) : HELD;
}

/**
 * The platform says that a wait's time is over. The row decides: an event that it holds has won, although nobody was told of it; or else
 * the wait is closed and takes none any more; or the platform's timer was early.
 */
export async function closeWait(run: Waiter, label: string, timeoutMs: number): Promise<WaitStanding> {
  const { instanceId } = run;
  const { wait } = await namedBatch(run.env.DB, {
    closed: closeOverdue(instanceId, label, timeoutMs, TIMER_SKEW_MS),
    status: markAnswered(run.envelope.tenant_id, instanceId),
    wait: selectWait(instanceId, label, timeoutMs),
  });
  return standing(wait[0], timeoutMs);
}

/** The event that a wait took, as JSON; undefined when none came. */
export async function heldSignal({ env, instanceId }: Waiter, label: string): Promise<string | undefined> {
  const [row] = await query(env.DB, selectWait(instanceId, label, 0));
  const envelope = row?.envelope;
  return typeof envelope === "string" ? envelope : undefined;
}

function selectWait(instanceId: string, label: string, timeoutMs: number): Statement {
  return sql`
    SELECT w.over_at, w.since_at + ${timeoutMs} - ${now} AS left_ms, ${now} AS at, s.envelope
    FROM millrace_waits w LEFT JOIN millrace_signals s ON s.id = w.signal_id
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
  /** When it was asked for first. */
  since: number;
  /** Until when, in milliseconds since 1970; null for a wait that began before this was noted. */
  until: number | null;
}

/** Steps that wait, as the code names them: the platform knows each by an event type of its own. */
export async function awaitedSteps(DB: D1Database, instanceId: string): Promise<ReadonlyMap<string, AwaitedStep>> {
  const { waits, questions } = await namedBatch(DB, {
    waits: sql`SELECT name, type, subject, event_type, since_at, due_at FROM millrace_waits WHERE instance_id = ${instanceId}`,
    questions: sql`SELECT step, id, asked_at, due_at FROM millrace_approvals WHERE instance_id = ${instanceId}`,
  });
  return new Map([
    ...waits.map((row): [string, AwaitedStep] => {
      const { name, type, subject, event_type } = row as Record<"name" | "type" | "subject" | "event_type", string>;
      const since = Number(row.since_at);
      return [event_type, { name, eventType: type, subject, approvalId: null, since, until: row.due_at as number | null }];
    }),
    ...questions.map((row): [string, AwaitedStep] => {
      const id = String(row.id);
      const [name, since, until] = [String(row.step), Number(row.asked_at), Number(row.due_at)];
      return [answerEventType(id), { name, eventType: null, subject: null, approvalId: id, since, until }];
    }),
  ]);
}
