import * as z from "zod";
import { address } from "../../contract/address.ts";
import { type EngineEnv, objectBinding } from "../../contract/bindings.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { instanceId, messageId, outboxId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { queueFor } from "../../contract/queue.ts";
import { restored, saysRedacted } from "../../contract/redact.ts";
import { redacted } from "../../contract/row.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { shortened } from "../../contract/text.ts";
import { newTrace } from "../../contract/trace.ts";
import { type DeadLetterReader, type FullDeadLetter, getDeadLetter } from "../../inspect/dead-letters.ts";
import { Fingerprint, signedFingerprint } from "../../inspect/fingerprint.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { envelopeIn, nameIn } from "../../intake/letters/letter.ts";
import { pulledMessage, pullIn } from "../../pull/letters.ts";
import { type PullEnv, pullQueueOf } from "../../pull/stub.ts";
import { relay } from "../../recorder/relay.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { escalateLetter, settleLetter } from "../../store/dead-letters.ts";
import { acceptAgain, askForStart, skipInstance } from "../../store/instances/accept.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import { dropOutgoing, type Outgoing, sendBehind } from "../../store/outbox.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { SkippedLetter } from "../../topology/hooks.ts";
import type { Typed } from "../../topology/marks.ts";
import { act, invalid } from "../act.ts";
import { type Resendable, readAgain } from "./read-again.ts";

export const Replayed = z
  .object({
    action_id: z.string(),
    instance_id: z.string().nullable(),
    sent: z.boolean().meta({ description: "False if nothing was left to do." }),
    why: z.string(),
  })
  .meta({ id: "Replayed" });
export type Replayed = z.infer<typeof Replayed>;

/**
 * Sends a dead letter's message back to its queue under the same key, with a validated correction if the request contains a correction. One
 * batch writes the dead letter, the audit row and the message. Therefore a second call changes nothing, and a crash loses nothing. Errors:
 * `dead_letter_not_found`; `forbidden` for a correction outside the token's scopes; and the errors of an invalid message, after which the
 * dead letter stays open.
 */
export async function replayDeadLetter(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  { reason, body: correction }: { reason: string; body?: unknown },
): Promise<Replayed> {
  const letter = await getDeadLetter(env, by, id);
  const body = correctionOf(catalog, letter, correction);
  const read = letter.state === "open" ? await readLetter(env, catalog, by, letter, body) : undefined;
  const instance_id = read === undefined ? letter.instance_id : "pulled" in read ? null : (read.command?.id ?? null);
  const states = { before: { state: "open" }, after: { state: "replayed" } };
  const action: Action = { id: actionIdOf(by), verb: "replay", target: id, instanceId: instance_id, reason, ...states };
  const change = settleLetter(id, "replayed");
  const answer = (sent: boolean, why: string) => ({ action_id: action.id, instance_id, sent, why });
  if (read === undefined) {
    await act(env, by, action, { change });
    return answer(false, `The dead letter is already ${letter.state}.`);
  }
  if ("pulled" in read) {
    await sendToPull(env, by, letter, read.pulled);
    const { isApplied: sent } = await act(env, by, action, { change });
    return answer(sent, sent ? SENT : "Another action settled the dead letter at the same time.");
  }
  const edited = { ...action, detail: { edited: body !== undefined } };
  const { isApplied, status, outgoing } = await putBack(env, by, edited, change, read);
  if (!isApplied) return answer(false, "Another action replayed or skipped the dead letter at the same time: nothing was sent.");
  if (status !== "accepted") return answer(false, `The instance of the command is already ${status}: nothing was sent.`);
  await relay(env, [outgoing]);
  return answer(true, SENT);
}

const SENT = "The message is on its queue again.";

/**
 * Sends the message of a pull queue's dead letter again, at the end of the queue. The message is sent before its dead letter is settled.
 * The message always has the same id, so a repeated call after a crash adds no second message. Errors: the errors of the queue, after which
 * the dead letter stays open.
 */
async function sendToPull(env: EngineEnv & PullEnv, by: Operator, { id, body }: FullDeadLetter, queue: string): Promise<void> {
  objectBinding(env, "PULL_QUEUES");
  const { body: message, contentType } = pulledMessage(body);
  await pullQueueOf(env, { name: queue }, by.tenantId).send(message, { contentType, idempotencyKey: `dead-letter/${id}` });
}

/** The message of an open dead letter, or its pull queue, whose messages cannot be corrected. Errors: as `readAgain`. */
async function readLetter(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  letter: FullDeadLetter,
  correction: unknown,
): Promise<Resendable | { readonly pulled: string }> {
  const pulled = pullIn(letter.queue);
  if (pulled === undefined) return readAgain(env, catalog, by, letter, correction);
  if (correction === undefined) return { pulled };
  const issues = [{ path: "body", message: "cannot be corrected" }];
  throw new MillraceError("forbidden", "A message of a pull queue is replayed unchanged: send no `body`.", { issues });
}

/**
 * Commits the return of a dead letter's message to its queue as a new message. `change` settles the dead letter. The other writes apply
 * only if `change` changed a row, so only one of several concurrent calls sends the message. Returns the status of the command's instance,
 * and the message to send if this status is `accepted`.
 */
export async function putBack(
  env: EngineEnv,
  by: Operator,
  action: Action,
  change: Statement,
  { envelope, command, before, queue }: Resendable,
): Promise<{ isApplied: boolean; status: string; outgoing: Outgoing }> {
  // Copies of the message without this mark are older than the replay.
  const marked: Envelope = { ...envelope, replay: action.id };
  const outgoing: Outgoing = { id: outboxId(marked), queue, delaySeconds: 0, body: JSON.stringify(marked) };
  const { isApplied, answers } = await act(env, by, action, {
    change,
    also: {
      again: command ? acceptAgain(command, before, action.id) : sendBehind(outgoing, action.id),
      asked: command?.flow ? askForStart([command.id]) : [],
      row: command ? sql`SELECT status FROM millrace_instances WHERE id = ${command.id}` : [],
    },
  });
  // If the key's instance has no row, the instance is pruned. The tombstone of the key prevents another run.
  const status = command ? String(answers.row[0]?.status ?? "pruned") : "accepted";
  return { isApplied, status, outgoing };
}

export const ReplayPlanRow = z.object({
  outcome: z.enum(["starts", "duplicate", "follows", "sent", "refused", "settled"]).meta({
    description:
      "`starts`: starts an instance. `duplicate`: an instance of the same work has the key, and nothing is sent. `follows`: the event goes to its routes. `sent`: goes back to a pull queue. `refused`: the dead letter remains open; `refused` has the reason. `settled`: it was settled before.",
  }),
  why: z.string().meta(redacted),
  queue: z.string().nullable().meta({ description: "The target queue." }),
  identity: z
    .object({
      tenant_id: z.string().meta(redacted),
      message_type: z.string().meta(redacted),
      idempotency_key: z.string().meta(redacted),
      subject: z.string().meta(redacted),
      fingerprint: Fingerprint,
    })
    .nullable()
    .meta({ description: "The identity of the message; null if it is not readable." }),
  instance: z
    .object({ id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) })
    .nullable()
    .meta({ description: "For a command: the instance that holds the key; null if the key is free." }),
});

export interface ReplayPlan extends z.infer<typeof ReplayPlanRow> {
  readonly refused: MillraceError | null;
}

/** Dry run of a replay with the current catalog. Errors: `dead_letter_not_found`; `unavailable` if the state cannot be read. */
export async function planReplay(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  correction: unknown,
): Promise<ReplayPlan> {
  const letter = await getDeadLetter(env, by, id);
  return planOf(env, catalog, by, letter, correctionOf(catalog, letter, correction));
}

export async function planOf(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  letter: FullDeadLetter,
  correction?: unknown,
): Promise<ReplayPlan> {
  const body = correction === undefined ? letter.body : correction;
  const identity = identityIn(env, body);
  const known: ReplayPlan = {
    ...{ outcome: "settled", why: `The dead letter is already ${letter.state}.`, refused: null },
    ...{ queue: letter.queue, identity, instance: null },
  };
  if (letter.state !== "open") return known;
  try {
    const read = await readLetter(env, catalog, by, letter, correction);
    if ("pulled" in read) return { ...known, queue: read.pulled, outcome: "sent", why: "The message returns to the end of its queue." };
    const { command, queue } = read;
    if (command === null) return { ...known, queue, outcome: "follows", why: "The event is delivered to its routes." };
    const instance = await holderOf(env, command.id);
    const starts = instance === null || instance.status === "dead";
    const why = starts
      ? "An instance starts under the message's key."
      : `The message is a duplicate: its instance is already ${instance.status}.`;
    return { ...known, queue, instance, outcome: starts ? "starts" : "duplicate", why };
  } catch (error) {
    if (!(error instanceof MillraceError) || codeOf(error) === "unavailable") throw error;
    const instance = await holderOf(env, keyOf(catalog, body) ?? letter.instance_id ?? undefined);
    return { ...known, queue: null, instance, outcome: "refused", why: messageOf(error), refused: error };
  }
}

function identityIn(env: EngineEnv, body: unknown): ReplayPlan["identity"] {
  const envelope = envelopeIn(body);
  if (envelope === undefined) return null;
  const { tenant_id, message_type, idempotency_key, subject } = envelope;
  const fingerprint = signedFingerprint(env, tenant_id, payloadFingerprint(envelope));
  return { tenant_id, message_type, idempotency_key, subject, fingerprint };
}

function keyOf(catalog: Catalog, body: unknown): string | undefined {
  const envelope = envelopeIn(body);
  const workflow = catalog.workflows.find(({ on }) => on.kind === "command" && on.type === envelope?.message_type)?.name;
  if (envelope?.kind !== "command" || workflow === undefined) return undefined;
  return instanceId(envelope.tenant_id, workflow, envelope.idempotency_key);
}

async function holderOf(env: EngineEnv, id: string | undefined): Promise<ReplayPlan["instance"]> {
  if (id === undefined) return null;
  const [row] = await query<NonNullable<ReplayPlan["instance"]>>(env.DB, selectKnown([id]));
  return row ? { id: row.id, status: row.status } : null;
}

/** An operator's correction of a payload, in which each redacted field has the stored value. Errors: `invalid_payload`. */
export function payloadAsStored(catalog: Catalog, of: Typed, edited: unknown, stored: unknown): unknown {
  return asStored(edited, redactionOf(catalog).payload(of, stored), stored);
}

/** Errors: `invalid_payload` for `[redacted]` in a field that was not redacted. */
function asStored(edited: unknown, shown: unknown, stored: unknown): unknown {
  const whole = restored(edited, shown, stored);
  if (shown === stored || !saysRedacted(whole)) return whole;
  throw invalid("body", "contains [redacted] where no value is stored: write the value, or remove the field");
}

/** A correction of a dead letter with its redacted fields restored; undefined without a correction. Errors: `invalid_payload`. */
export function correctionOf(catalog: Catalog, { queue, body }: Pick<FullDeadLetter, "queue" | "body">, edited: unknown): unknown {
  return edited === undefined ? undefined : asStored(edited, redactionOf(catalog).letter(queue, body).body, body);
}

/**
 * Skips a dead letter for good, with an audit row. If the dead letter's command never started its instance, the instance is skipped too.
 * The messages of `onSkipped` are committed in the same write. Errors: `dead_letter_not_found`.
 */
export async function skipDeadLetter(env: EngineEnv, catalog: Catalog, by: DeadLetterReader, id: string, reason: string) {
  const letter = await getDeadLetter(env, by, id);
  const { instance_id: instanceId, body } = letter;
  const actionId = actionIdOf(by);
  const message = envelopeIn(body);
  const known = {
    ...letter,
    messageType: letter.message_type,
    idempotencyKey: letter.idempotency_key,
    tenantId: by.tenantId,
    correlationId: nameIn(body, "correlation_id"),
  };
  const about = await aboutLetter(env, catalog, known, { because: reason, actor: by.actor, source: "operator" });
  const states = { before: { state: "open" }, after: { state: "skipped" } };
  const action: Action = { id: actionId, verb: "skip", target: id, instanceId, reason, ...states };
  const { isApplied: skipped } = await act(env, by, action, {
    change: settleLetter(id, "skipped"),
    also: {
      given: message ? [skipInstance(instanceId, payloadFingerprint(message), actionId), dropOutgoing(message, actionId)] : [],
      said: about.map((one) => sendBehind(one, actionId)),
    },
  });
  if (skipped) await relay(env, about);
  return { action_id: actionId, skipped };
}

/** Notifies the alert channels once. The dead letter stays open. A repeat is audited as no change. Errors: `dead_letter_not_found`. */
export async function escalateDeadLetter(env: EngineEnv, by: DeadLetterReader, id: string, note: string) {
  const { instance_id: instanceId } = await getDeadLetter(env, by, id);
  const changed = { before: { escalated: false }, after: { escalated: true } };
  const action = { id: crypto.randomUUID(), verb: "escalate", target: id, instanceId, reason: note, ...changed };
  const { isApplied: escalated } = await act(env, by, action, { change: escalateLetter(id, by.actor, note) });
  return { action_id: action.id, escalated };
}

type GivenUp = Omit<SkippedLetter, "because" | "actor" | "at"> & { tenantId: string; correlationId: string | undefined };

type Decision = Pick<SkippedLetter, "because" | "actor"> & { source: "operator" | "retention" };

/**
 * The messages of the deployment's `onSkipped` for a dead letter, with the correlation id of this dead letter. The messages are committed
 * in the same write as the skip. A repeated call for the same dead letter returns the same messages.
 */
export function aboutLetter(env: EngineEnv, catalog: Catalog, letter: GivenUp, { because, actor, source }: Decision): Promise<Outgoing[]> {
  const { id, queue, reason, tenantId, correlationId } = letter;
  // Dead letters of earlier deployments may have longer names.
  const cut = (text: string | null) => text && shortened(text, 500);
  const [messageType, idempotencyKey] = [cut(letter.messageType), cut(letter.idempotencyKey)];
  const drafts = catalog.hooks.onSkipped?.({ id, queue, messageType, idempotencyKey, reason, because, actor, at: new Date() }) ?? [];
  return Promise.all(
    drafts.map(async (draft) => {
      const envelope = await address(env.PAYLOADS, draft, {
        tenantId,
        source,
        correlationId: correlationId ?? id,
        causationId: `dead-letter/${id}`,
        traceparent: newTrace(),
        owner: `dead-letter-${id}`,
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
