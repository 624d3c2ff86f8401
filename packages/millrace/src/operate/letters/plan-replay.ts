import type { EngineEnv } from "../../contract/bindings.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { instanceId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { queuesOf } from "../../contract/queue.ts";
import { type DeadLetterReader, type FullDeadLetter, getDeadLetter } from "../../inspect/dead-letters.ts";
import { envelopeIn, textField } from "../../intake/letters/letter.ts";
import { pullIn } from "../../pull/keep-letter.ts";
import { query } from "../../store/d1/retry.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { correctionOf } from "../as-stored.ts";
import { operatorBy, readAgain } from "./read-again.ts";

/** The fields that identify a message, and the hash of its payload. */
export interface MessageIdentity {
  readonly tenantId: string;
  readonly messageType: string;
  readonly idempotencyKey: string;
  readonly subject: string;
  /** SHA-256 of the payload. Messages with the same key and different payloads are different messages. */
  readonly fingerprint: string;
}

/** The instance that a command with the same key has started. */
export interface KeyHolder {
  readonly id: string;
  /** `pruned`: the instance ended long ago, and only the instance's key is still stored. */
  readonly status: InstanceStatus | "pruned";
}

/**
 * Result of a replay. `starts`: an instance starts · `duplicate`: no message is sent, because an instance of the same message has the key ·
 * `follows`: the event is sent to its routes · `sent`: the message returns to a pull queue · `refused`: no message is sent, and the dead
 * letter stays open · `settled`: no message is sent, because the dead letter is no longer open.
 */
export const REPLAY_OUTCOMES = ["starts", "duplicate", "follows", "sent", "refused", "settled"] as const;

/** Result of a dry run of a replay. */
export interface ReplayPlan {
  readonly outcome: (typeof REPLAY_OUTCOMES)[number];
  /** The reason for the outcome of the replay, as a sentence. */
  readonly why: string;
  /** The error of a refused replay; null otherwise. */
  readonly refused: MillraceError | null;
  /** The queue to which the replayed message is sent. */
  readonly queue: string | null;
  /** The identity of the message; null if the message is not readable. */
  readonly identity: MessageIdentity | null;
  /** The instance that has the command's key now; null if no instance has the key. */
  readonly holder: KeyHolder | null;
}

/**
 * Dry run of a replay with the current catalog, and with the corrected body if the request contains a correction. Errors:
 * `dead_letter_not_found`; `unavailable` if the state cannot be read.
 */
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
  const identity = identityIn(body);
  const known = { refused: null, queue: letter.queue, identity, holder: null };
  if (letter.state !== "open") return { ...known, outcome: "settled", why: `The dead letter is already ${letter.state}.` };
  const pulled = pullIn(letter.queue);
  if (pulled !== undefined) return planPulled(pulled, correction);
  try {
    const { command, queue } = await readAgain(env, catalog, operatorBy(by), letter, correction);
    if (command === null) return { ...known, queue, outcome: "follows", why: "The event is delivered to its routes." };
    const holder = await holderOf(env, command.id);
    const starts = holder === null || holder.status === "dead";
    const why = starts
      ? "An instance starts under the message's key."
      : `The message is a duplicate: its instance is already ${holder.status}.`;
    return { ...known, queue, holder, outcome: starts ? "starts" : "duplicate", why };
  } catch (error) {
    if (!(error instanceof MillraceError) || codeOf(error) === "unavailable") throw error;
    const holder = await holderOf(env, keyOf(catalog, body) ?? letter.instance_id ?? undefined);
    return { ...known, queue: null, holder, outcome: "refused", why: messageOf(error), refused: error };
  }
}

function planPulled(queue: string, correction: unknown): ReplayPlan {
  const known = { refused: null, queue, identity: null, holder: null };
  if (correction === undefined) return { ...known, outcome: "sent", why: "The message returns to the end of its queue." };
  const issues = [{ path: "body", message: "cannot be corrected" }];
  const refused = new MillraceError("forbidden", "A message of a pull queue is replayed unchanged: send no `body`.", { issues });
  return { ...known, outcome: "refused", why: refused.message, refused };
}

function identityIn(body: unknown): MessageIdentity | null {
  const envelope = envelopeIn(body);
  if (envelope === undefined) return null;
  const { tenant_id: tenantId, message_type: messageType, idempotency_key: idempotencyKey, subject } = envelope;
  return { tenantId, messageType, idempotencyKey, subject, fingerprint: payloadFingerprint(envelope) };
}

function keyOf(catalog: Catalog, body: unknown): string | undefined {
  const envelope = envelopeIn(body);
  const workflow = catalog.workflows.find(({ on }) => on.kind === "command" && on.type === envelope?.message_type)?.name;
  if (envelope?.kind !== "command" || workflow === undefined) return undefined;
  return instanceId(envelope.tenant_id, workflow, envelope.idempotency_key);
}

async function holderOf(env: EngineEnv, id: string | undefined): Promise<KeyHolder | null> {
  if (id === undefined) return null;
  const [row] = await query<{ id: string; status: KeyHolder["status"] }>(env.DB, selectKnown([id]));
  return row ? { id: row.id, status: row.status } : null;
}

export interface KnownMessage {
  readonly type: string;
  readonly kind: "command" | "event";
  readonly version: number;
  readonly queues: readonly string[];
  readonly workflow: string | null;
}

/** The type of a dead letter's message in the current catalog; null if the type is unknown. */
export function knownMessage(catalog: Catalog, { body }: Pick<FullDeadLetter, "body">): KnownMessage | null {
  const type = textField(body, "message_type");
  const kinds = type === null ? [] : catalog.kindsOf(type);
  const kind = kinds.find((one) => one === textField(body, "kind")) ?? kinds[0];
  if (type === null || kind === undefined) return null;
  const { definition, workflow } =
    kind === "command"
      ? { definition: catalog.performer(type).on, workflow: catalog.performer(type).name }
      : { definition: catalog.subscribers(type).event, workflow: null };
  return { type, kind, version: definition.version, queues: queuesOf(definition.queue), workflow };
}
