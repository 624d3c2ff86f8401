import type { Envelope } from "../contract/envelope.ts";
import { signalId } from "../contract/ids.ts";
import { among, fragment, now, rowChunks, type Statement, sql } from "../contract/sql.ts";
import { RUNS_NO_MORE, UNDER_WAY } from "./instances/status.ts";

/**
 * Keeps events for the instances that wait for them, now or later: one statement, or a few when the events are large. Answers the ids of
 * those that are new.
 */
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

/** The events of these ids, each with its envelope. */
export function selectSignals(ids: readonly string[]): Statement {
  return sql`SELECT id, envelope FROM millrace_signals WHERE id IN ${among(ids)}`;
}

/** Under which subject an event is kept that an operator sends to one instance: none has this character, so that no other wait takes it. */
const sentTo = (instance: string) => `char(31) || ${instance}`;

/** Keeps an event for one instance, if that is under way. Nothing changes where it is kept already. */
export function insertSignalTo(instanceId: string, envelope: Envelope): Statement {
  return sql`
    INSERT INTO millrace_signals (id, tenant_id, type, subject, envelope, received_at)
    SELECT ${signalId(envelope)}, tenant_id, ${envelope.message_type}, ${fragment(sentTo("id"))}, ${JSON.stringify(envelope)}, ${now}
    FROM millrace_instances
    WHERE id = ${instanceId} AND tenant_id = ${envelope.tenant_id} AND status IN ${UNDER_WAY} AND undo IS NULL
    ON CONFLICT (id) DO NOTHING`;
}

/** An event of a wait's type, not older than its instance, and not taken by another wait of it. */
const FITS_OTHERWISE = `s.tenant_id = millrace_waits.tenant_id AND s.type = millrace_waits.type
      AND s.received_at >= (SELECT accepted_at FROM millrace_instances WHERE id = millrace_waits.instance_id)
      AND NOT EXISTS (SELECT 1 FROM millrace_waits taken WHERE taken.instance_id = millrace_waits.instance_id AND taken.signal_id = s.id)`;

/** An event and a wait that may take it: about its subject, not older than its instance, not taken by another wait of the same instance. */
export const FITS = fragment(`s.subject = millrace_waits.subject AND ${FITS_OTHERWISE}`);

/** The same of an event that was sent to the wait's instance. */
export const FITS_AS_SENT = fragment(
  `s.subject = ${sentTo("millrace_waits.instance_id")} AND s.envelope->>'subject' = millrace_waits.subject AND ${FITS_OTHERWISE}`,
);

const oldest = (fits: string) => `(SELECT s.id FROM millrace_signals s WHERE ${fits} ORDER BY s.received_at, s.id LIMIT 1)`;

/** The event a wait may take now: first what was sent to its instance. Each is the first of an index. */
export const OLDEST_FITTING = fragment(`coalesce(${oldest(FITS_AS_SENT.fragment)}, ${oldest(FITS.fragment)})`);

/** A run in doubt or asleep may come to wait for an event of long ago; one that is open for longer than this takes no event from before. */
const LONGEST_KEPT_DAYS = 400;

/**
 * The condition that an event is old, and that no instance could still take it, now or after a retry: any of the tenant's that is older
 * than the event and not over; and that no wait holds it, because a restarted run is answered with it again. Instances that old are few.
 */
export function isFree(keepMs: number): Statement {
  return sql`received_at <= ${now} - ${keepMs} AND NOT EXISTS (
    SELECT 1 FROM millrace_instances i WHERE i.tenant_id = millrace_signals.tenant_id
      AND i.accepted_at <= millrace_signals.received_at AND (
      (i.status NOT IN ${RUNS_NO_MORE} AND millrace_signals.received_at > ${now} - ${LONGEST_KEPT_DAYS * 86_400_000})
      OR EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = i.id
        AND millrace_waits.signal_id = millrace_signals.id)))`;
}

/** Removes events that are still free. Answers a row for each. */
export function removeFree(ids: readonly string[], keepMs: number): Statement {
  return sql`DELETE FROM millrace_signals WHERE id IN ${among(ids)} AND ${isFree(keepMs)} RETURNING 1 AS gone`;
}
