import { type EngineEnv, isElsewhere, workflowBinding } from "../contract/bindings.ts";
import type { Elsewhere } from "../contract/elsewhere.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { signalId } from "../contract/ids.ts";
import { logLine } from "../contract/log-line.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { among, type Statement, sql } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { lookAfterEvents } from "../store/instances/look.ts";
import { selectSignals } from "../store/signals.ts";
import { assignEvents, noteTold } from "../store/waits.ts";

/** A wait with its assigned event, which must be sent to the instance. */
export interface Assigned {
  instance_id: string;
  workflow: string;
  event_type: string;
  signal_id: string;
}

/** Returns each event whose key belongs to a stored event with another payload or subject. */
export async function reusedAmong(env: EngineEnv, events: readonly Envelope[]): Promise<ReadonlySet<Envelope>> {
  if (events.length === 0) return new Set();
  const rows = await query<{ id: string; envelope: string }>(env.DB, selectSignals(events.map(signalId)));
  const saying = (event: Envelope) => `${payloadFingerprint(event)} ${event.subject}`;
  const kept = new Map(rows.map(({ id, envelope }) => [id, saying(JSON.parse(envelope) as Envelope)]));
  return new Set(events.filter((event) => (kept.get(signalId(event)) ?? saying(event)) !== saying(event)));
}

/**
 * Assigns events to matching waits (see `assignEvents`). The statements also make the keeper check the instances of the waits, because a
 * notification may fail now. The first statement returns the waits.
 */
export function assignSignals(envelopes: readonly Envelope[]): Statement[] {
  const arrived = JSON.stringify(envelopes.map(({ tenant_id, message_type, subject }) => ({ tenant_id, message_type, subject })));
  return [assignEvents(arrived), lookAfterEvents(envelopes.map(signalId))];
}

/** Maximum number of instances notified in parallel. */
const TOLD_AT_ONCE = 100;

/**
 * Sends events to the instances that wait for them, and returns the waits whose instances were notified. The keeper notifies the remaining
 * instances later, because the rows of their waits contain the events. `known` contains events that need not be read from the database.
 */
export async function wake<Waiting extends Assigned>(
  env: EngineEnv,
  assigned: readonly Waiting[],
  known: readonly Envelope[] = [],
  elsewhere?: Elsewhere,
): Promise<Waiting[]> {
  const heard: Waiting[] = [];
  const events = assigned.length === 0 ? new Map<string, object>() : await eventsOf(env, assigned, known);
  for (let from = 0; from < assigned.length; from += TOLD_AT_ONCE) {
    const telling = assigned.slice(from, from + TOLD_AT_ONCE).map(async (one) => {
      const payload = events.get(one.signal_id);
      return payload && (await tell(env, one, payload, elsewhere)) ? [one] : [];
    });
    heard.push(...(await Promise.all(telling)).flat());
  }
  return heard;
}

export async function tell(
  env: EngineEnv,
  { workflow, instance_id, event_type }: Assigned,
  payload: object,
  elsewhere: Elsewhere | undefined,
): Promise<boolean> {
  // Another Worker runs the workflow, and the keeper of that Worker notifies the workflow's instances.
  if (isElsewhere(env, workflow, elsewhere)) return false;
  const telling = async () => {
    const instance = await workflowBinding(env, workflow, elsewhere).get(instance_id);
    await instance.sendEvent({ type: event_type, payload });
  };
  try {
    await within(telling());
    return true;
  } catch (error) {
    logLine("warn", { log: "wake", instance_id, error: messageOf(error) });
    return false;
  }
}

/** The events that are assigned to the given waits, by id. Each event is read once. */
async function eventsOf(env: EngineEnv, assigned: readonly Assigned[], known: readonly Envelope[]): Promise<ReadonlyMap<string, object>> {
  const events = new Map<string, object>(known.map((event) => [signalId(event), event]));
  const others = new Set(assigned.map((one) => one.signal_id).filter((id) => !events.has(id)));
  if (others.size === 0) return events;
  const read = await query<{ id: string; envelope: string }>(env.DB, selectSignals([...others])).catch(() => []);
  for (const { id, envelope } of read) events.set(id, JSON.parse(envelope) as Envelope);
  return events;
}

/**
 * Sends events that are assigned to waits of the given instances and are not marked as sent, because an earlier notification may have been
 * lost. Returns the ids of the instances that could not be notified. An event does not count as sent if a retry has replaced the run that
 * received the event.
 */
export async function tellAgain(env: EngineEnv, instanceIds: readonly string[]): Promise<ReadonlySet<string>> {
  if (instanceIds.length === 0) return new Set();
  const held = await query<Assigned & { run: number }>(
    env.DB,
    sql`
      SELECT w.instance_id, w.workflow, w.event_type, w.signal_id, i.run
      FROM millrace_waits w JOIN millrace_instances i ON i.id = w.instance_id
      WHERE w.instance_id IN ${among(instanceIds)}
        AND w.signal_id IS NOT NULL AND w.told_at IS NULL`,
  );
  const told = await wake(env, held);
  const untold = new Set(held.filter((one) => !told.includes(one)).map((one) => one.instance_id));
  if (told.length === 0) return untold;
  await atomically(env.DB, told.map(noteTold));
  return untold;
}
