import type { Envelope } from "../contract/envelope.ts";
import { signalId } from "../contract/ids.ts";
import { among, fragment, now, rowChunks, type Statement, sql } from "../contract/sql.ts";
import { RUNS_NO_MORE, UNDER_WAY } from "./instances/status.ts";

/** Stores events for present and future waits. Large events need several statements. The statements return the ids of the new events. */
export function insertSignals(envelopes: readonly Envelope[]): Statement[] {
  return rowChunks(envelopes.map((envelope) => ({ id: signalId(envelope), envelope }))).map(
    (rows) => sql`
    WITH given AS MATERIALIZED (SELECT value FROM json_each(${rows}))
    INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at)
    SELECT value->>'id', value->>'$.envelope.tenant_id', value->>'$.envelope.message_type', value->>'$.envelope.subject',
      value->'envelope', ${now}
    FROM given WHERE true
    ON CONFLICT (id) DO NOTHING
    RETURNING id`,
  );
}

/** The events with the given ids, each with its envelope. */
export function selectSignals(ids: readonly string[]): Statement {
  return sql`SELECT id, envelope FROM millrace_signals WHERE id IN ${among(ids)}`;
}

/**
 * The subject of an event that an operator sends to one instance. No other subject contains the character 31, so that the event matches
 * only waits of the given instance.
 */
const sentTo = (instance: string) => `char(31) || ${instance}`;

/** Stores an event for one instance, if the instance is in progress. Repeating the statement changes nothing. */
export function insertSignalTo(instanceId: string, envelope: Envelope): Statement {
  return sql`
    INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at)
    SELECT ${signalId(envelope)}, tenant_id, ${envelope.message_type}, ${fragment(sentTo("id"))}, ${JSON.stringify(envelope)}, ${now}
    FROM millrace_instances
    WHERE id = ${instanceId} AND tenant_id = ${envelope.tenant_id} AND status IN ${UNDER_WAY} AND undo IS NULL
    ON CONFLICT (id) DO NOTHING`;
}

/**
 * The condition that an event has a wait's type and is not older than the wait's instance. The event must also not be assigned to any wait
 * of the instance.
 */
const FITS_OTHERWISE = `s.tenant_id = millrace_waits.tenant_id AND s.type = millrace_waits.type
      AND s.received_at >= (SELECT accepted_at FROM millrace_instances WHERE id = millrace_waits.instance_id)
      AND NOT EXISTS (SELECT 1 FROM millrace_waits taken WHERE taken.instance_id = millrace_waits.instance_id AND taken.signal_id = s.id)`;

/**
 * The condition that an event matches a wait. The event has the wait's type and subject, is not older than the instance, and is not
 * assigned to any wait of the instance.
 */
export const FITS = fragment(`s.subject = millrace_waits.subject AND ${FITS_OTHERWISE}`);

/** The condition that an event was sent only to the instance of a wait, and matches the wait. */
export const FITS_AS_SENT = fragment(
  `s.subject = ${sentTo("millrace_waits.instance_id")} AND s.envelope->>'subject' = millrace_waits.subject AND ${FITS_OTHERWISE}`,
);

const oldest = (fits: string) => `(SELECT s.id FROM millrace_signals s WHERE ${fits} ORDER BY s.received_at, s.id LIMIT 1)`;

/**
 * The oldest event that matches a wait. An event that was sent only to the wait's instance has precedence. Each of the two queries reads
 * only the first entry of an index.
 */
export const OLDEST_FITTING = fragment(`coalesce(${oldest(FITS_AS_SENT.fragment)}, ${oldest(FITS.fragment)})`);

/**
 * Retention in days of events for which a run in doubt or a sleeping run may still wait. An instance that is open for a longer time gets no
 * older event.
 */
const LONGEST_KEPT_DAYS = 400;

/**
 * The condition that an event is old, and that no instance can receive it, now or after a retry. The condition holds if no older instance
 * of the tenant is open and the event is assigned to no wait. A restarted run would get an assigned event again. Few open instances are as
 * old as an event to which the condition applies.
 */
export function isFree(keepMs: number): Statement {
  return sql`received_at <= ${now} - ${keepMs} AND NOT EXISTS (
    SELECT 1 FROM millrace_instances i WHERE i.tenant_id = millrace_signals.tenant_id
      AND i.accepted_at <= millrace_signals.received_at AND (
      (i.status NOT IN ${RUNS_NO_MORE} AND millrace_signals.received_at > ${now} - ${LONGEST_KEPT_DAYS * 86_400_000})
      OR EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = i.id
        AND millrace_waits.signal_id = millrace_signals.id)))`;
}

/** Removes events that no instance can receive any more. The statement returns a row for each removed row. */
export function removeFree(ids: readonly string[], keepMs: number): Statement {
  return sql`DELETE FROM millrace_signals WHERE id IN ${among(ids)} AND ${isFree(keepMs)} RETURNING 1 AS gone`;
}
