import { among, now, type RowStatement, type Statement, sql } from "../contract/sql.ts";
import { wasApplied } from "./actions.ts";
import type { NewChild } from "./instances/children.ts";
import { UNDER_WAY } from "./instances/status.ts";
import { isHeld } from "./instances/wait.ts";
import { FITS, FITS_AS_SENT, OLDEST_FITTING } from "./signals.ts";

/** An instance's wait for an event. */
export interface NewWait {
  readonly instanceId: string;
  /** The number of the run that waits. */
  readonly run: number;
  /** The name of the waiting step on the platform. */
  readonly name: string;
  readonly workflow: string;
  readonly tenantId: string;
  /** The type of the event that the instance waits for. */
  readonly type: string;
  readonly subject: string;
  /** The platform's event type for the wait. */
  readonly eventType: string;
  readonly timeoutMs: number;
}

/**
 * Registers an instance's wait for an event, unless the instance is paused or another run has begun. A wait may be registered several
 * times. The time limit of the wait counts from its first registration.
 */
export function askForEvent(wait: NewWait): Statement {
  const { instanceId, run, name, workflow, tenantId, type, subject, eventType, timeoutMs } = wait;
  return sql`
    INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at, asked_at, due_at)
    SELECT ${instanceId}, ${name}, ${workflow}, ${tenantId}, ${type}, ${subject}, ${eventType}, ${now}, ${now}, ${now} + ${timeoutMs}
    WHERE NOT ${isHeld(instanceId, run)}
    ON CONFLICT (instance_id, name) DO UPDATE SET asked_at = excluded.asked_at, due_at = since_at + ${timeoutMs}`;
}

/** Assigns a matching event to a wait, if the event was stored before the wait was registered. */
export function takeEarly(instanceId: string, name: string): Statement {
  return sql`
    UPDATE millrace_waits SET signal_id = ${OLDEST_FITTING}
    WHERE instance_id = ${instanceId} AND name = ${name} AND signal_id IS NULL AND over_at IS NULL`;
}

/**
 * Assigns events to matching waits. An instance's newest wait gets the oldest event, and its second newest wait gets the second oldest
 * event. The newest wait comes first because the code may have abandoned an older wait, for example after a race of two waits. `arrived` is
 * a JSON array with the tenant, type and subject of each event. The statement returns the waits that got an event.
 */
export function assignEvents(arrived: string): Statement {
  return sql`
    UPDATE millrace_waits SET signal_id = pair.signal_id
    FROM (
      SELECT millrace_waits.instance_id, millrace_waits.name, s.id AS signal_id,
        dense_rank() OVER (PARTITION BY millrace_waits.instance_id, millrace_waits.type, millrace_waits.subject
          ORDER BY coalesce(millrace_waits.asked_at, millrace_waits.since_at) DESC, millrace_waits.name) AS nth_wait,
        dense_rank() OVER (PARTITION BY millrace_waits.instance_id, millrace_waits.type, millrace_waits.subject
          ORDER BY s.received_at, s.id) AS nth_event
      FROM millrace_waits JOIN millrace_signals s ON ${FITS}
      WHERE millrace_waits.signal_id IS NULL AND millrace_waits.over_at IS NULL
        AND (millrace_waits.tenant_id, millrace_waits.type, millrace_waits.subject) IN
          (SELECT value->>'tenant_id', value->>'message_type', value->>'subject' FROM json_each(${arrived}))
    ) AS pair
    WHERE millrace_waits.instance_id = pair.instance_id AND millrace_waits.name = pair.name AND pair.nth_wait = pair.nth_event
    RETURNING instance_id, workflow, event_type, signal_id`;
}

/**
 * Assigns an event that was sent only to an instance to the instance's newest matching wait. The statement returns the wait that got the
 * event.
 */
export function assignSent(instanceId: string, { type, subject }: { type: string; subject: string }, signalId: string): Statement {
  return sql`
    UPDATE millrace_waits SET signal_id = ${signalId}
    WHERE instance_id = ${instanceId} AND name = (
        SELECT name FROM millrace_waits open WHERE open.instance_id = ${instanceId} AND open.type = ${type}
          AND open.subject = ${subject} AND open.signal_id IS NULL AND open.over_at IS NULL
        ORDER BY coalesce(open.asked_at, open.since_at) DESC, open.name LIMIT 1)
      AND EXISTS (SELECT 1 FROM millrace_signals s WHERE s.id = ${signalId} AND ${FITS_AS_SENT})
    RETURNING instance_id, name, workflow, event_type, signal_id`;
}

/** Selects the open waits of an instance for events of a type. */
export function selectOpenWaits(instanceId: string, type: string): Statement {
  return sql`
    SELECT name, subject FROM millrace_waits
    WHERE instance_id = ${instanceId} AND type = ${type} AND signal_id IS NULL AND over_at IS NULL`;
}

/** Selects the wait of an instance that has received an event. */
export function selectTaker(instanceId: string, signalId: string): Statement {
  return sql`SELECT name FROM millrace_waits WHERE instance_id = ${instanceId} AND signal_id = ${signalId}`;
}

/** Selects a wait or an approval of an instance, by the name of its step. */
export function selectAwaited(instanceId: string, name: string): Statement {
  return sql`
    SELECT 1 FROM millrace_waits WHERE instance_id = ${instanceId} AND name = ${name}
    UNION ALL SELECT 1 FROM millrace_approvals WHERE instance_id = ${instanceId} AND step = ${name}`;
}

/**
 * Marks an event as sent to the run of its wait. An event does not count as sent if a retry has replaced the run to which the event was
 * sent.
 */
export function noteTold({ instance_id, signal_id, run }: { instance_id: string; signal_id: string; run: number }): RowStatement {
  return { text: NOTE_TOLD, row: { instance_id, signal_id, run } };
}

const NOTE_TOLD = `
  UPDATE millrace_waits SET told_at = ${now.fragment}
  FROM json_each(?1) t JOIN millrace_instances i ON i.id = t.value->>'instance_id'
  WHERE millrace_waits.instance_id = i.id AND millrace_waits.signal_id = t.value->>'signal_id' AND i.run = t.value->>'run'`;
/** Marks the events of restarted runs as not sent, because the platform has discarded the events that the earlier run had received. */
export function tellAnew(instanceIds: readonly string[]): Statement {
  return sql`UPDATE millrace_waits SET told_at = NULL WHERE instance_id IN ${among(instanceIds)} AND told_at IS NOT NULL`;
}

/** Closes a wait that has no event, if the wait's time limit has passed. The platform's timer may end too early by at most `skewMs`. */
export function closeOverdue(instanceId: string, name: string, timeoutMs: number, skewMs: number): Statement {
  return sql`
    UPDATE millrace_waits SET over_at = ${now}
    WHERE instance_id = ${instanceId} AND name = ${name} AND signal_id IS NULL AND over_at IS NULL
      AND since_at + ${timeoutMs} <= ${now} + ${skewMs}`;
}

/** Reopens a timed-out wait for an operator's retry. The statement must follow the statement that applies the operator's action. */
export function reopenWait(instanceId: string, name: string | null, actionId: string): Statement {
  return sql`
    UPDATE millrace_waits SET over_at = NULL, since_at = ${now}, due_at = due_at - since_at + ${now}
    WHERE instance_id = ${instanceId} AND name = ${name} AND over_at IS NOT NULL AND ${wasApplied(actionId)}`;
}

/**
 * Marks the events of an instance's waits as not sent, because a restart discards the events that were sent to the earlier run. The
 * statement must follow the statement that applies the operator's action.
 */
export function forgetTold(instanceId: string, actionId: string): Statement {
  return sql`UPDATE millrace_waits SET told_at = NULL
    WHERE instance_id = ${instanceId} AND told_at IS NOT NULL AND ${wasApplied(actionId)}`;
}

export function removeWaits(whose: Statement): Statement {
  return sql`DELETE FROM millrace_waits WHERE ${whose}`;
}

/** The type of the events that report the ends of children. No message can have this type. */
export const ENDED_CHILD = "millrace/child";

/**
 * The platform's event type that reports the end of a child to its parent. The type contains the child's run that the parent waits for, so
 * that the platform cannot deliver an earlier end again.
 */
export function childEventType(child: string, run: number): string {
  return `child-${child}-${run}`;
}

/** Registers the parent's wait for the end of a child. If the step starts another child after an undo, the wait is for that child. */
export function waitForChild({ id, envelope, parent, step, by }: NewChild): RowStatement {
  return { text: WAIT_FOR_CHILD, row: { parent, step, by, tenant: envelope.tenant_id, id, type: childEventType(id, 1) } };
}

const WAIT_FOR_CHILD = `
  INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at, asked_at)
  SELECT value->>'parent', value->>'step', value->>'by', value->>'tenant', '${ENDED_CHILD}', value->>'id', value->>'type', ${now.fragment},
    ${now.fragment}
  FROM json_each(?1) WHERE true
  ON CONFLICT (instance_id, name) DO UPDATE SET type = excluded.type, subject = excluded.subject, event_type = excluded.event_type,
    since_at = excluded.since_at, asked_at = excluded.asked_at, signal_id = NULL, told_at = NULL, over_at = NULL
  WHERE millrace_waits.subject <> excluded.subject`;

/**
 * Reopens the wait for a child that is in progress, for example because an operator has retried the child. The wait gets an event type of
 * the child's present run.
 */
export function askForChild(parent: string, step: string): Statement {
  return sql`
    UPDATE millrace_waits SET event_type = 'child-' || c.id || '-' || c.run, signal_id = NULL, told_at = NULL
    FROM millrace_instances c
    WHERE millrace_waits.instance_id = ${parent} AND name = ${step} AND c.id = millrace_waits.subject AND c.status IN ${UNDER_WAY}`;
}

/** Selects the wait for a child, with the event that reports the child's end. */
export function selectChildWait(parent: string, step: string): Statement {
  return sql`
    SELECT w.event_type, s.envelope
    FROM millrace_waits w LEFT JOIN millrace_signals s ON s.id = w.signal_id
    WHERE w.instance_id = ${parent} AND w.name = ${step}`;
}

/**
 * Selects the end of a child, for the undo of its parent. A complete end has precedence, because the code of the parent may have continued
 * with the result before an undo of the child recorded a later end.
 */
export function selectEndForUndo(parent: string, step: string): Statement {
  return sql`
    SELECT coalesce(
      (SELECT s.envelope FROM millrace_signals s
        WHERE s.tenant_id = w.tenant_id AND s.type = w.type AND s.subject = w.subject AND s.envelope->>'status' = 'complete'
        ORDER BY s.received_at DESC LIMIT 1),
      (SELECT s.envelope FROM millrace_signals s WHERE s.id = w.signal_id)) AS envelope
    FROM millrace_waits w WHERE w.instance_id = ${parent} AND w.name = ${step}`;
}
