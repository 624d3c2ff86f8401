import { address } from "../contract/address.ts";
import { assertSendable, type EngineEnv } from "../contract/bindings.ts";
import { durationMs } from "../contract/duration.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { flowOf } from "../contract/flow.ts";
import { type EntryKey, eventKey, fingerprintOf, instanceId, messageId } from "../contract/ids.ts";
import type { Draft, Performer } from "../contract/message.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { laneIn, queueFor } from "../contract/queue.ts";
import { CHILD_PREFIX, labelOf } from "../contract/step-names.ts";
import { nextHop } from "../contract/trace.ts";
import { currentVersion } from "../contract/workflow-versions.ts";
import { query } from "../store/d1/retry.ts";
import { type NewChild, selectBlocked } from "../store/instances/children.ts";
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
      const parent = draft.child && entry.instanceId;
      const envelope = await address(env.PAYLOADS, draft, {
        parent,
        tenantId: cause.tenant_id,
        source: `workflow:${workflow}`,
        correlationId: cause.correlation_id,
        causationId: causes[index] ?? "",
        ...nextHop(cause),
        path: [...(cause.path ?? []), workflow],
        owner: eventKey(entry, index),
      });
      const queue = queueFor(draft.queue, envelope);
      const child = draft.child && childOf(draft.child, { envelope, queue, entry, by: workflow, payload: draft.payload });
      if (child) await assertStarts(env, child);
      return {
        id: messageId(envelope),
        queue,
        delaySeconds: draft.delaySeconds,
        body: JSON.stringify(envelope),
        ...(child && { child }),
      };
    }),
  );
}

interface ChildOf {
  readonly envelope: Envelope;
  readonly queue: string;
  readonly entry: EntryKey;
  readonly by: string;
  readonly payload: unknown;
}

function childOf(
  { name, version = currentVersion(name), deadline }: Performer,
  { envelope, queue, entry, by, payload }: ChildOf,
): NewChild {
  const flow = flowOf(name, { envelope, payload });
  return {
    id: instanceId(envelope.tenant_id, name, envelope.idempotency_key),
    workflow: name,
    version,
    envelope,
    fingerprint: payloadFingerprint(envelope),
    queue,
    parent: entry.instanceId,
    step: labelOf(entry.step.slice(CHILD_PREFIX.length), entry.item),
    by,
    ...(flow && { flow }),
    ...(deadline !== undefined && { deadlineMs: durationMs(deadline) }),
  };
}

/**
 * Refuses a child that could not start before its parent ends, because the parent waits for the child. Errors: `config_invalid`.
 */
async function assertStarts(env: EngineEnv, child: NewChild): Promise<void> {
  const { flow, queue, step, workflow } = child;
  const lane = laneIn(queue) === undefined ? undefined : queue;
  if (flow?.slot === undefined && lane === undefined) return;
  const [blocked] = await query<{ id: string }>(env.DB, selectBlocked(child, lane));
  if (blocked === undefined) return;
  const [what, fix] = lane ? ["lane", "another subject or queue"] : ["slot", "another key of `concurrency`"];
  throw new MillraceError(
    "config_invalid",
    `The child "${step}" needs the ${what} of the instance ${blocked.id}, which waits for the child: give "${workflow}" ${fix}.`,
    { step },
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
