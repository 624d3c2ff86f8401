import { among, sql } from "../../contract/sql.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { confirm } from "../../store/outbox.ts";
import { confirmToSenders } from "../../topology/hooks.ts";
import type { Intake } from "../consumer.ts";
import { envelopeIn, letterId, textField } from "../letters/letter.ts";

/** A first delivery that is younger than this has no older copy whose letter a person could have settled: it is not looked up. */
const YOUNG_MS = 60_000;
/** How far the clocks of senders may be ahead. */
const CLOCK_SKEW_MS = 5000;

/**
 * Copies of messages whose dead letter an operator has settled: skipped, or put back on its queue as a message of its own. Whatever queue
 * or keeper still carries of the old one does nothing, also after a deployment that could do something with it. Their outboxes hear
 * again that nobody waits for them.
 */
export async function settledBefore(
  { env, consumer: { queue }, catalog }: Intake,
  messages: readonly Message[],
): Promise<ReadonlySet<Message>> {
  const old = messages.flatMap((message) => {
    // Most deliveries are first ones of young messages, and are not read twice for this.
    if (message.attempts === 1 && isYoung(textField(message.body, "created_at"))) return [];
    const envelope = envelopeIn(message.body);
    return envelope === undefined ? [] : [{ message, envelope, letter: letterId(queue.name, envelope) }];
  });
  if (old.length === 0) return new Set();
  const rows = await query<{ id: string }>(
    env.DB,
    sql`
      SELECT id FROM millrace_dead_letters
      WHERE id IN ${among(old.map(({ letter }) => letter))} AND state IN ('replayed', 'skipped')`,
  );
  const settled = new Set(rows.map(({ id }) => id));
  const copies = old.filter(({ letter }) => settled.has(letter));
  if (copies.length === 0) return new Set();
  const envelopes = copies.map(({ envelope }) => envelope);
  await atomically(env.DB, confirm(envelopes));
  await confirmToSenders(catalog.hooks, env, envelopes);
  return new Set(copies.map(({ message }) => message));
}

/** A date in the future is a sender's mistake, and says nothing. */
function isYoung(createdAt: string | null): boolean {
  const age = Date.now() - Date.parse(createdAt ?? "");
  return age > -CLOCK_SKEW_MS && age < YOUNG_MS;
}
