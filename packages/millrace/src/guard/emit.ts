import { address } from "../contract/address.ts";
import { assertSendable, type EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { type EntryKey, eventKey, fingerprintOf, messageId } from "../contract/ids.ts";
import type { Draft } from "../contract/message.ts";
import { queueFor } from "../contract/queue.ts";
import { labelOf } from "../contract/step-names.ts";
import { nextHop } from "../contract/trace.ts";
import type { Outgoing } from "../store/outbox.ts";

/** Addresses what a step emits: correlation carried on, the step as the cause, ids that are the same at every attempt. */
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
      // What no queue would ever take is better said to its author than kept in the outbox.
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
 * The step that emits, as the cause of its messages. Two commands of one key that say different things are two messages, whose causes
 * differ: the consumer hears of both, and captures the one that comes too late.
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
