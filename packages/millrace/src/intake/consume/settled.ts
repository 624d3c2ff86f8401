import { among, sql } from "../../contract/sql.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { confirm } from "../../store/outbox.ts";
import { confirmToSenders } from "../../topology/hooks.ts";
import type { Intake } from "../consumer.ts";
import { envelopeIn, letterId, textField } from "../letters/letter.ts";

/**
 * A message whose age in milliseconds is below this limit has no older copy that an operator could have settled. Therefore the first
 * delivery of such a message needs no query.
 */
const YOUNG_MS = 60_000;
/** Maximum time by which a sender's clock is ahead, in milliseconds. */
const CLOCK_SKEW_MS = 5000;

/**
 * Returns the messages whose dead letter an operator has skipped or has replayed as a new message. Remaining copies of these messages in
 * queues and outboxes have no effect, even after a deployment that could process them. The function confirms these messages in their
 * outboxes again.
 */
export async function settledBefore(
  { env, consumer: { queue }, catalog }: Intake,
  messages: readonly Message[],
): Promise<ReadonlySet<Message>> {
  const old = messages.flatMap((message) => {
    // The first delivery of a young message is skipped here, so that the usual message is not parsed twice.
    if (message.attempts === 1 && isYoung(textField(message.body, "created_at"))) return [];
    const envelope = envelopeIn(message.body);
    return envelope === undefined ? [] : [{ message, envelope, letter: letterId(queue.name, envelope) }];
  });
  if (old.length === 0) return new Set();
  const rows = await query<{ id: string }>(
    env.DB,
    sql`
      SELECT id FROM millrace_dead_letters
      WHERE id IN ${among(old.map(({ letter }) => letter))} AND +state IN ('replayed', 'skipped')`,
  );
  const settled = new Set(rows.map(({ id }) => id));
  const copies = old.filter(({ letter }) => settled.has(letter));
  if (copies.length === 0) return new Set();
  const envelopes = copies.map(({ envelope }) => envelope);
  await atomically(env.DB, confirm(envelopes));
  await confirmToSenders(catalog.hooks, env, envelopes);
  return new Set(copies.map(({ message }) => message));
}

/**
 * True for a message created moments ago. A message with a creation date in the future is not young, because such a date is a sender's
 * mistake.
 */
function isYoung(createdAt: string | null): boolean {
  const age = Date.now() - Date.parse(createdAt ?? "");
  return age > -CLOCK_SKEW_MS && age < YOUNG_MS;
}
