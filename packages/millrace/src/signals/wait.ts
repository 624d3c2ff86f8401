import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { digest } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { markAnswered, waitForEvent } from "../store/instances/wait.ts";
import { askForEvent, closeOverdue, ENDED_CHILD, takeEarly } from "../store/waits.ts";
import { answerEventType, HELD, type Held, type Left, SHORTEST_WAIT_MS, TIMER_SKEW_MS } from "./approval.ts";

/**
 * The platform's event type of one wait. Each wait has its own type, because the platform can deliver a consumed event again to a later
 * wait of the same type.
 */
export function waitEventType(instanceId: string, label: string): string {
  return `signal-${digest("wait", instanceId, label)}`;
}

export interface Waiter {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly instanceId: string;
  readonly envelope: Envelope;
  /** The version of the workflow that the run executes. */
  readonly version: number;
}

/** The end of a wait: the received event as the envelope's JSON, or a timeout. */
export type WaitEnd = { event: string } | { over: true };

/** The state of a wait: its end, or the remaining time of an open wait. */
type WaitStanding = WaitEnd | Left;

/**
 * Registers an instance's wait for an event with a subject. If a matching event is already stored, the event is assigned to the wait. The
 * result is `Held` if an operator has paused the instance or begun another run.
 *
 * The row of the wait remains across restarts, so that a restarted run gets the same event or the same timeout. The time limit starts at
 * the first call. An event is assigned to at most one wait of an instance.
 */
export async function registerWait(
  waiter: Waiter,
  run: number,
  label: string,
  type: string,
  subject: string,
  timeoutMs: number,
): Promise<WaitStanding | Held> {
  const { instanceId, workflow, version } = waiter;
  const { tenant_id: tenantId } = waiter.envelope;
  const eventType = waitEventType(instanceId, label);
  const { wait } = await namedBatch(waiter.env.DB, {
    asked: askForEvent({ instanceId, run, name: label, workflow, tenantId, type, subject, eventType, timeoutMs }),
    taken: takeEarly(instanceId, label),
    status: waitForEvent(instanceId, label, version),
    wait: selectWait(instanceId, label, timeoutMs),
  });
  return wait[0] ? standing(wait[0], timeoutMs) : HELD;
}

/**
 * Handles the platform's timeout of a wait. If the row of the wait already has an event, the wait gets this event. Otherwise the wait is
 * closed and accepts no event, unless the platform's timer was early.
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

/** The event that is assigned to a wait, as JSON; undefined if no event is assigned. */
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
  // The platform treats a timeout of 0 as no timeout.
  const leftMs = Math.max(SHORTEST_WAIT_MS, Number(row?.left_ms ?? timeoutMs));
  return { leftMs: Math.min(timeoutMs || SHORTEST_WAIT_MS, leftMs), at: Number(row?.at ?? Date.now()) };
}

/** A wait or an approval of an instance, with its name in the workflow's code. */
export interface AwaitedStep {
  name: string;
  /** The type of the event that the wait needs; null for an approval. */
  eventType: string | null;
  subject: string | null;
  approvalId: string | null;
  /** The id of the awaited child; null for an event and an approval. */
  childId: string | null;
  /** When the code first called the wait, in milliseconds since 1970. */
  since: number;
  /** When the wait times out, in milliseconds since 1970; null for a wait of an older deployment. */
  until: number | null;
}

/** The waits and approvals of an instance, by the event type that ends each of them on the platform. */
export async function awaitedSteps(DB: D1Database, instanceId: string): Promise<ReadonlyMap<string, AwaitedStep>> {
  const { waits, questions } = await namedBatch(DB, {
    waits: sql`SELECT name, type, subject, event_type, since_at, due_at FROM millrace_waits WHERE instance_id = ${instanceId}`,
    questions: sql`SELECT step, id, asked_at, due_at FROM millrace_approvals WHERE instance_id = ${instanceId}`,
  });
  return new Map([
    ...waits.map((row): [string, AwaitedStep] => {
      const { name, type, subject, event_type } = row as Record<"name" | "type" | "subject" | "event_type", string>;
      const since = Number(row.since_at);
      const isChild = type === ENDED_CHILD;
      const awaited = isChild ? { eventType: null, subject: null, childId: subject } : { eventType: type, subject, childId: null };
      return [event_type, { name, ...awaited, approvalId: null, since, until: row.due_at as number | null }];
    }),
    ...questions.map((row): [string, AwaitedStep] => {
      const id = String(row.id);
      const [name, since, until] = [String(row.step), Number(row.asked_at), Number(row.due_at)];
      return [answerEventType(id), { name, eventType: null, subject: null, approvalId: id, childId: null, since, until }];
    }),
  ]);
}
