import { address } from "../contract/address.ts";
import { assertSendable, type EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { type EntryKey, eventKey, fingerprintOf, messageId } from "../contract/ids.ts";
import type { Draft } from "../contract/message.ts";
import { queueFor } from "../contract/queue.ts";
import { labelOf } from "../contract/step-names.ts";
import { nextHop } from "../contract/trace.ts";
import type { Outgoing } from "../store/outbox.ts";

/** Addresses the messages of a step. The messages keep the correlation, name the step as cause, and have the same ids at every attempt. */
export function addressEmitted(
  env: EngineEnv,
  cause: Envelope,
  workflow: string,
  entry: EntryKey,
  drafts: readonly Draft[],
): Promise<Outgoing[]> {
  const causes = causesOf(entry, drafts);
  return Promise.all(
    drafts.map(async (draft, index) => {
      // A message that no queue accepts is refused before it is stored, because it would remain in the outbox forever.
      assertSendable(env, draft.queue);
      const envelope = await address(env.PAYLOADS, draft, {
        tenantId: cause.tenant_id,
        source: `workflow:${workflow}`,
        correlationId: cause.correlation_id,
        causationId: causes[index] ?? "",
        ...nextHop(cause),
        path: [...(cause.path ?? []), workflow],
        owner: eventKey(entry, index),
      });
      return {
        id: messageId(envelope),
        queue: queueFor(draft.queue, envelope),
        delaySeconds: draft.delaySeconds,
        body: JSON.stringify(envelope),
      };
    }),
  );
}

/**
 * The cause of each message. Two commands with one key and different payloads get different causes, so that the consumer receives both
 * commands and captures the later command as a dead letter.
 */
function causesOf({ instanceId, step, item, generation }: EntryKey, drafts: readonly Draft[]): string[] {
  const cause = `${instanceId}/${labelOf(step, item)}${generation === 1 ? "" : ` · generation ${generation}`}`;
  const firsts = new Map<string, Draft>();
  return drafts.map((draft, index) => {
    if (draft.key === undefined) return cause;
    const work = JSON.stringify([draft.type, draft.key]);
    const first = firsts.get(work) ?? draft;
    firsts.set(work, first);
    return first === draft || fingerprintOf(first.payload) === fingerprintOf(draft.payload) ? cause : `${cause} · message ${index + 1}`;
  });
}
