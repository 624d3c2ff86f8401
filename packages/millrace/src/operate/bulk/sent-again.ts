import { outboxId } from "../../contract/ids.ts";
import { among, sql } from "../../contract/sql.ts";
import { bulkActionId } from "../../store/actions.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { query } from "../../store/d1/retry.ts";
import type { ActedOn, Outcome } from "../../topology/bulk-verb.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { BECAME, type Became, outcomeOf } from "./instance-outcome.ts";

/** A replayed dead letter, with the key of the message and the instance that the message's command started. */
interface Replayed extends Partial<Became> {
  id: string;
  mark: string;
  instance_id: string | null;
  tenant_id: string;
  message_type: string;
  idempotency_key: string;
  causation_id: string;
}

/** Maximum time between the first message that a chunk sends and the record of the chunk's results, in milliseconds. */
const LATEST_MS = 180_000;

/**
 * The outcomes of replayed messages. The outcome of a command is the outcome of its instance. An event succeeds if a consumer handled the
 * event. A message that fails again is a new dead letter with the id of the replay.
 */
export async function sentAgain({ env, by, bulkId }: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  const marks = acted.map(({ id }) => bulkActionId(bulkId ?? "", id));
  const letters = await query<Replayed & Record<string, unknown>>(
    env.DB,
    sql`
      SELECT a.target AS id, a.id AS mark, a.instance_id, ${BECAME}, d.body->>'tenant_id' AS tenant_id,
        d.body->>'message_type' AS message_type, d.body->>'idempotency_key' AS idempotency_key, d.body->>'causation_id' AS causation_id
      FROM json_each(${JSON.stringify(marks)}) m CROSS JOIN millrace_actions a ON a.id = m.value
        CROSS JOIN millrace_dead_letters d ON d.id = a.target
        LEFT JOIN millrace_instances i ON i.id = a.instance_id AND i.tenant_id = a.tenant_id
      WHERE a.tenant_id = ${by.tenantId}`,
  );
  const outcomes = new Map<string, Outcome>();
  for (const { id, status, error = null } of letters) {
    const outcome = status && outcomeOf({ status, error });
    if (outcome) outcomes.set(id, outcome);
  }
  const events = letters.filter(({ instance_id }) => instance_id === null);
  if (events.length === 0) return outcomes;
  const since = Math.min(...acted.map(({ at }) => at)) - LATEST_MS;
  const rows = new Map(events.map((letter) => [outboxId({ ...letter, replay: letter.mark }), letter.id]));
  const { unsent, again } = await namedBatch(env.DB, {
    unsent: sql`SELECT id FROM millrace_outbox WHERE id IN ${among([...rows.keys()])}`,
    again: sql`
      SELECT body->>'replay' AS mark, reason, error FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_tenant
      WHERE tenant_id = ${by.tenantId} AND state = 'open' AND captured_at >= ${since} AND body->>'replay' IN ${among(marks)}`,
  });
  for (const { id } of unsent) outcomes.set(rows.get(String(id)) ?? "", "open");
  const byMark = new Map(events.map(({ mark, id }) => [mark, id]));
  for (const { mark, reason, error } of again) {
    const why = error === null ? "The message is a dead letter again." : String(error);
    outcomes.set(byMark.get(String(mark)) ?? "", { code: String(reason), why });
  }
  return outcomes;
}
