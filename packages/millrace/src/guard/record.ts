import { address } from "../contract/address.ts";
import { assertSendable, type EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { durationMs } from "../contract/duration.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { flowOf } from "../contract/flow.ts";
import { digest, type EntryKey, eventKey, fingerprintOf, instanceId, messageId } from "../contract/ids.ts";
import type { Draft, Performer } from "../contract/message.ts";
import { currentVersion } from "../contract/params.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { laneIn, queueFor } from "../contract/queue.ts";
import { CHILD_PREFIX, labelOf } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import { nextHop } from "../contract/trace.ts";
import type { Answer } from "../recorder/answer.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { assertWellFormed } from "../store/d1/bindable.ts";
import { query } from "../store/d1/retry.ts";
import type { Attempt } from "../store/inbox/entry.ts";
import { type NewChild, selectBlocked } from "../store/instances/children.ts";
import type { Outgoing } from "../store/outbox.ts";
import { type PackedOutput, packOutput, resultOf, type StepOutcome } from "./output.ts";
import type { Commit, Writes } from "./step.ts";

/**
 * Writes the outcome of an effect, the app's rows and the messages in one atomic write. If another attempt recorded first, that
 * attempt's output is returned. An output that cannot be stored is recorded as an error before the step fails, because its effect
 * happened.
 */
export async function record<Output>(
  { replay, step, attempt }: { replay: Replay; step: StepCall; attempt: Attempt },
  output: Output,
  writes: (output: Output) => Writes,
): Promise<StepOutcome> {
  const { inbox } = replay;
  await crashPoint("W03 effect done, not recorded", replay.instanceId);
  const { packed, problem } = await pack(replay, attempt, output);
  const { statements = [], emit = [] } = problem ? {} : asWrites(writes(output), step.label);
  const messages = await addressEmitted(replay.env, replay.envelope, replay.workflow, attempt.key, emit);
  await crashPoint("W06 about to record", replay.instanceId);
  const error = problem ? JSON.stringify({ step: step.label, code: codeOf(problem), message: messageOf(problem) }) : null;
  const { newTags: tags } = replay;
  const outcome = { ...packed, statements, messages, error, ...(tags.length > 0 && { tags }) };
  const askedAt = Date.now();
  const now = () => ({
    ...attempt,
    ...inbox.stamp(step),
    beganAt: replay.inline.beganAt(step.label),
    endedInline: replay.inline.isOwn(step.label),
  });
  let answer = await replay.recorder.record(now(), outcome);
  // Another replay of the run may have written records that this replay has not read.
  while (!isDone(answer) && (await inbox.follow(step))) answer = await replay.recorder.record(now(), outcome);
  const { mine, entry } = answer;
  inbox.noteEntry(answer.standing, askedAt);
  await crashPoint("W05 recorded, step result lost", replay.instanceId);
  if (mine) {
    inbox.noteOutcome(step, attempt.token);
    replay.noteTagged(tags);
  } else inbox.noteOther(step);
  if (!isDone(answer)) {
    if ((await replay.run.readDecision()) !== "continue") return { held: true };
    replay.run.assertNotComplete();
    throw new MillraceError("lease_lost", `Another attempt has claimed "${step.label}": the outcome of this attempt was not recorded.`);
  }
  const result = resultOf(replay.instanceId, entry ?? { ...attempt.key, output: packed.output, output_ref: packed.outputRef, error });
  return answer.appRows === undefined ? result : { ...result, appRows: answer.appRows };
}

function isDone({ mine, entry }: Answer): boolean {
  return mine || entry?.state === "done";
}

export async function pack(replay: Replay, attempt: Attempt, output: unknown): Promise<{ packed: PackedOutput; problem?: unknown }> {
  try {
    const path = () => `${replay.envelope.tenant_id}/${replay.instanceId}/${digest(attempt.key.step, attempt.key.item, attempt.token)}`;
    return { packed: await packOutput(replay.env.PAYLOADS, path, output) };
  } catch (problem) {
    // The effect of a commit is its write. Without the write nothing happened, so there is nothing to record.
    const isLost = codeOf(problem) === "output_too_large" || codeOf(problem) === "output_not_serializable";
    if (!isLost || attempt.class === "commit") throw problem;
    return { packed: { output: null, outputRef: null }, problem };
  }
}

/**
 * Validates the writes that `record`, `undo` or a commit returned. Errors: `config_invalid` for anything but lists of statements and
 * messages, such as a promise, a single statement or a misspelled name. Text that is not well-formed Unicode causes the same error.
 */
export function asWrites<Output>(given: Commit<Output>, label: string): Writes & { output?: Output } {
  const { statements = [], emit = [], output, ...others } = isPlain(given) ? given : refuse(label, given);
  const [misspelled] = Object.keys(others);
  if (misspelled !== undefined) throw refused(label, `"${misspelled}"`);
  if (!Array.isArray(statements)) return refuse(label, statements);
  for (const statement of statements) assertWellFormed(statement);
  if (!Array.isArray(emit)) return refuse(label, emit);
  const odd = emit.find((draft) => typeof draft?.type !== "string" || typeof draft.queue?.name !== "string");
  if (odd !== undefined || emit.includes(undefined as never))
    throw refused(label, `a message ${shown(odd)}, which is not an event (create one with Event.from(payload))`);
  return output === undefined ? { statements, emit } : { statements, emit, output };
}

function isPlain(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("then" in value) && !("text" in value);
}

function refuse(label: string, given: unknown): never {
  throw refused(label, given instanceof Promise ? "a promise" : shown(given));
}

function refused(label: string, what: string): MillraceError {
  return new MillraceError(
    "config_invalid",
    `The writes of "${label}" must be { statements: [sql\`…\`], emit: [Event.from(…)] }, not ${what}.`,
  );
}

function shown(value: unknown): string {
  try {
    return beginning(JSON.stringify(value) ?? String(value), 60);
  } catch {
    return `a ${typeof value}`;
  }
}

/** Addresses the messages of a step. The messages keep the correlation, name the step as cause, and have the same ids at every attempt. */
function addressEmitted(env: EngineEnv, cause: Envelope, workflow: string, entry: EntryKey, drafts: readonly Draft[]): Promise<Outgoing[]> {
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
