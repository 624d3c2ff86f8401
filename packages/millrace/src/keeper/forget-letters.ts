import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { now, rowChunks, sql } from "../contract/sql.ts";
import { nameIn } from "../intake/letters/letter.ts";
import { aboutLetter } from "../operate/letters/settle.ts";
import { relay } from "../recorder/relay.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { removeOpenLetters } from "../store/dead-letters.ts";
import { insertLastWords, type Outgoing } from "../store/outbox.ts";
import type { Catalog } from "../topology/catalog.ts";

const LETTERS = 100;
const DAY_MS = 86_400_000;

interface OldLetter {
  id: string;
  tenantId: string | null;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  correlationId: string | null;
  reason: string;
}

/**
 * Removes open dead letters after their retention time, together with the messages of the catalog's `onSkipped`. The dead letter of a
 * command that never started is removed together with the row of the command's instance. Without the dead letter, the command could not be
 * replayed. The query reads only the old rows of an index.
 */
export async function forgetOpenLetters(env: EngineEnv, catalog: Catalog | undefined, keepMs: number): Promise<number> {
  const old = await query<OldLetter>(
    env.DB,
    sql`
      SELECT id, tenant_id AS tenantId, queue, message_type AS messageType, idempotency_key AS idempotencyKey,
        correlation_id AS correlationId, reason
      FROM millrace_dead_letters WHERE state = 'open' AND captured_at <= ${now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM millrace_instances
          WHERE millrace_instances.id = millrace_dead_letters.instance_id AND millrace_instances.status = 'dead')
      LIMIT ${LETTERS}`,
  );
  if (old.length === 0) return 0;
  const because = `No operator replayed or skipped the dead letter for ${Math.round(keepMs / DAY_MS)} days.`;
  const said = (await Promise.all(old.map((letter) => saidOf(env, catalog, letter, because)))).filter((one) => one !== undefined);
  const messages = said.flatMap(({ id, about }) => about.map((message) => ({ ...message, letter: id })));
  // A dead letter that an operator replayed or skipped meanwhile is not removed and gets no message.
  const { gone } = await namedBatch(env.DB, {
    said: rowChunks(messages).map(insertLastWords),
    gone: removeOpenLetters(said.map(({ id }) => id)),
  });
  const forgotten = new Set(gone.map(({ id }) => id));
  await relay(
    env,
    messages.filter(({ letter }) => forgotten.has(letter)),
  );
  return gone.length;
}

/**
 * Returns the messages about a removed dead letter. For a dead letter without a tenant, the function returns no messages. Returns undefined
 * when `onSkipped` fails, so that the dead letter remains.
 */
async function saidOf(
  env: EngineEnv,
  catalog: Catalog | undefined,
  letter: OldLetter,
  because: string,
): Promise<{ id: string; about: Outgoing[] } | undefined> {
  const { id, tenantId, correlationId } = letter;
  if (tenantId === null || catalog === undefined) return { id, about: [] };
  const job = nameIn({ correlation_id: correlationId }, "correlation_id");
  const known = { ...letter, tenantId, correlationId: job };
  try {
    return { id, about: await aboutLetter(env, catalog, known, { because, actor: "retention", source: "retention" }) };
  } catch (error) {
    logLine("error", { log: "retention", rule: "dead letters open", letter: id, code: codeOf(error), error: messageOf(error) });
    return undefined;
  }
}
