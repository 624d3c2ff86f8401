import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { signalId } from "../contract/ids.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { fragment, now, rowChunks, type Statement, sql } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { batch, query } from "../store/retry.ts";

/** A wait that has its event: the instance must be told. */
export interface Assigned {
  instance_id: string;
  workflow: string;
  event_type: string;
  signal_id: string;
}

/**
 * Keeps events for the instances that wait for them, now or later: one statement, or a few when the events are large. Answers the ids of
 * those that are new.
 */
export function insertSignals(envelopes: readonly Envelope[]): Statement[] {
  return rowChunks(envelopes.map((envelope) => ({ id: signalId(envelope), envelope }))).map(
    (rows) => sql`
    INSERT INTO signals (id, tenant_id, type, subject, envelope, received_at)
    SELECT value->>'id', value->'envelope'->>'tenant_id', value->'envelope'->>'message_type', value->'envelope'->>'subject',
      value->'envelope', ${now}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT (id) DO NOTHING
    RETURNING id`,
  );
}

/** Of these events, those under whose key another payload is kept, or the same about another subject. */
export async function reusedAmong(env: EngineEnv, events: readonly Envelope[]): Promise<ReadonlySet<Envelope>> {
  if (events.length === 0) return new Set();
  const ids = JSON.stringify(events.map(signalId));
  const rows = await query<{ id: string; envelope: string }>(
    env.DB,
    sql`SELECT id, envelope FROM signals WHERE id IN (SELECT value FROM json_each(${ids}))`,
  );
  const saying = (event: Envelope) => `${payloadFingerprint(event)} ${event.subject}`;
  const kept = new Map(rows.map(({ id, envelope }) => [id, saying(JSON.parse(envelope) as Envelope)]));
  return new Set(events.filter((event) => (kept.get(signalId(event)) ?? saying(event)) !== saying(event)));
}

/**
 * Gives the waits for these events what fits them and what their instances have not had yet: to the wait that an instance asked for last
 * the oldest event, to the one before the next, as many as there are of both. An older wait may have lost a race in the code, and nobody
 * listens to it any more. The keeper is asked to look at those instances in case they cannot be told now. The first statement answers the
 * waits.
 */
export function assignSignals(envelopes: readonly Envelope[]): Statement[] {
  const arrived = JSON.stringify(envelopes.map(({ tenant_id, message_type, subject }) => ({ tenant_id, message_type, subject })));
  const ids = JSON.stringify(envelopes.map(signalId));
  return [
    sql`
      UPDATE waits SET signal_id = pair.signal_id
      FROM (
        SELECT waits.instance_id, waits.name, s.id AS signal_id,
          dense_rank() OVER (PARTITION BY waits.instance_id, waits.type, waits.subject
            ORDER BY coalesce(waits.asked_at, waits.since_at) DESC, waits.name) AS nth_wait,
          dense_rank() OVER (PARTITION BY waits.instance_id, waits.type, waits.subject ORDER BY s.received_at, s.id) AS nth_event
        FROM waits JOIN signals s ON ${FITS}
        WHERE waits.signal_id IS NULL AND waits.over_at IS NULL
          AND (waits.tenant_id, waits.type, waits.subject) IN
            (SELECT value->>'tenant_id', value->>'message_type', value->>'subject' FROM json_each(${arrived}))
      ) AS pair
      WHERE waits.instance_id = pair.instance_id AND waits.name = pair.name AND pair.nth_wait = pair.nth_event
      RETURNING instance_id, workflow, event_type, signal_id`,
    sql`
      UPDATE instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
      WHERE check_at > ${now} + ${KEEPER_PATIENCE_MS}
        AND id IN (SELECT instance_id FROM waits WHERE signal_id IN (SELECT value FROM json_each(${ids})))`,
  ];
}

/** An event and a wait that may take it: about its subject, not older than its instance, not taken by another wait of the same instance. */
const FITS = fragment(`s.tenant_id = waits.tenant_id AND s.type = waits.type AND s.subject = waits.subject
      AND s.received_at >= (SELECT accepted_at FROM instances WHERE id = waits.instance_id)
      AND NOT EXISTS (SELECT 1 FROM waits taken WHERE taken.instance_id = waits.instance_id AND taken.signal_id = s.id)`);

/** The event a wait may take now. */
export const OLDEST_FITTING = fragment(`(SELECT s.id FROM signals s WHERE ${FITS.fragment} ORDER BY s.received_at, s.id LIMIT 1)`);

/** How many instances are told at a time. */
const TOLD_AT_ONCE = 100;

/**
 * Tells waiting instances of their events, and answers which of them heard. What cannot be told now, the keeper tells: the rows already
 * hold the event. `known` are events that need not be read.
 */
export async function wake<Waiting extends Assigned>(
  env: EngineEnv,
  assigned: readonly Waiting[],
  known: readonly Envelope[] = [],
): Promise<Waiting[]> {
  const heard: Waiting[] = [];
  const events = assigned.length === 0 ? new Map<string, object>() : await eventsOf(env, assigned, known);
  for (let from = 0; from < assigned.length; from += TOLD_AT_ONCE) {
    const telling = assigned.slice(from, from + TOLD_AT_ONCE).map(async (one) => {
      const payload = events.get(one.signal_id);
      return payload && (await tell(env, one, payload)) ? [one] : [];
    });
    heard.push(...(await Promise.all(telling)).flat());
  }
  return heard;
}

async function tell(env: EngineEnv, { workflow, instance_id, event_type }: Assigned, payload: object): Promise<boolean> {
  const telling = async () => {
    const instance = await workflowBinding(env, workflow).get(instance_id);
    await instance.sendEvent({ type: event_type, payload });
  };
  try {
    await within(telling());
    return true;
  } catch (error) {
    console.warn(JSON.stringify({ log: "wake", instance_id, error: String(error) }));
    return false;
  }
}

/** What the waits' events say, by their ids: each is read once, however many waits have it. */
async function eventsOf(env: EngineEnv, assigned: readonly Assigned[], known: readonly Envelope[]): Promise<ReadonlyMap<string, object>> {
  const events = new Map<string, object>(known.map((event) => [signalId(event), event]));
  const others = new Set(assigned.map((one) => one.signal_id).filter((id) => !events.has(id)));
  if (others.size === 0) return events;
  const read = await query<{ id: string; envelope: string }>(
    env.DB,
    sql`SELECT id, envelope FROM signals WHERE id IN (SELECT value FROM json_each(${JSON.stringify([...others])}))`,
  ).catch(() => []);
  for (const { id, envelope } of read) events.set(id, JSON.parse(envelope) as Envelope);
  return events;
}

/**
 * Tells instances of the events that their waits hold and that the keeper has not told them of: the first telling may have been lost.
 * Answers those that could not be told now either. What was told to a run that a retry has replaced meanwhile does not count.
 */
export async function tellAgain(env: EngineEnv, instanceIds: readonly string[]): Promise<ReadonlySet<string>> {
  if (instanceIds.length === 0) return new Set();
  const held = await query<Assigned & { run: number }>(
    env.DB,
    sql`
      SELECT w.instance_id, w.workflow, w.event_type, w.signal_id, i.run
      FROM waits w JOIN instances i ON i.id = w.instance_id
      WHERE w.instance_id IN (SELECT value FROM json_each(${JSON.stringify(instanceIds)}))
        AND w.signal_id IS NOT NULL AND w.told_at IS NULL`,
  );
  const told = await wake(env, held);
  const untold = new Set(held.filter((one) => !told.includes(one)).map((one) => one.instance_id));
  if (told.length === 0) return untold;
  await batch(env.DB, [
    sql`
      UPDATE waits SET told_at = ${now}
      FROM json_each(${JSON.stringify(told)}) t JOIN instances i ON i.id = t.value->>'instance_id'
      WHERE waits.instance_id = i.id AND waits.signal_id = t.value->>'signal_id' AND i.run = t.value->>'run'`,
  ]);
  return untold;
}
