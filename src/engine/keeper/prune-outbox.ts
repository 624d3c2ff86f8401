import type { EngineEnv } from "../contract/bindings.ts";
import { now, sql } from "../contract/sql.ts";
import { insertDeadLetters } from "../intake/capture.ts";
import { batch, query } from "../store/retry.ts";
import { MAX_PAUSE_MS } from "./resend-outbox.ts";

const ROWS = 100;
/** Pauses of a row's first tries, shorter than the longest. */
const SHORT_PAUSES = 6;

/**
 * Messages that no queue has taken for so long become dead letters, and leave the outbox in the same write: a person sees them, and
 * none is dropped. How long is told by the tries, one for each longest pause. One that its queue takes and nobody confirms is not meant:
 * it stays and is sent again. Reads the outbox, which holds only what is unconfirmed.
 */
export async function giveUpOutbox(env: EngineEnv, keepMs: number): Promise<number> {
  const tries = Math.ceil(keepMs / MAX_PAUSE_MS) + SHORT_PAUSES;
  const stuck = await query<{ id: string }>(
    env.DB,
    sql`SELECT id FROM outbox WHERE attempts >= ${tries} AND error IS NOT NULL LIMIT ${ROWS}`,
  );
  if (stuck.length === 0) return 0;
  // A body that is no JSON is kept as a JSON text (`|| ''` makes it plain text again for json_object). Its consumer may have confirmed one since: only rows that are still there become letters. A new id each, because an earlier letter about the same message may exist.
  const still = sql`id IN (SELECT value FROM json_each(${JSON.stringify(stuck.map(({ id }) => id))})) AND attempts >= ${tries} AND error IS NOT NULL`;
  const letters = sql`(
    SELECT json_group_array(json_object('id', lower(hex(randomblob(16))), 'queue', queue, 'body', iif(json_valid(body), body, json_quote(body) || ''),
      'reason', 'undeliverable', 'error', error, 'attempts', attempts, 'firstAt',
      coalesce(iif(json_valid(body), CAST(unixepoch(body->>'created_at', 'subsec') * 1000 AS INTEGER), NULL), ${now} - ${keepMs})))
    FROM outbox WHERE ${still})`;
  const [, gone = []] = await batch(env.DB, [insertDeadLetters(letters), sql`DELETE FROM outbox WHERE ${still} RETURNING id`]);
  console.error(JSON.stringify({ log: "dead_letters", queue: "outbox", captured: gone.length }));
  return gone.length;
}
