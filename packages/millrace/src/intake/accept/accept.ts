import { timingSafeEqual } from "node:crypto";
import { durationMs } from "../../contract/duration.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { flowOf } from "../../contract/flow.ts";
import { instanceId, messageId, signed } from "../../contract/ids.ts";
import type { Performer } from "../../contract/message.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { textChunks } from "../../contract/sql.ts";
import type { NewInstance } from "../../store/instances/accept.ts";
import type { Outgoing } from "../../store/outbox.ts";

/** The new instance that an accepted message starts. */
export interface Acceptance extends NewInstance {
  readonly delaySeconds: number;
  /** The instance's fields as JSON, for the insert of the row. */
  readonly row: string;
}

/**
 * Returns the instance of a message. Equal messages always get the same instance id. `payload`: the decoded payload, which a workflow with
 * flow control needs if the payload is in R2. `id`: the id of the instance, if it is known.
 */
export function acceptance(
  performer: Performer,
  message: Envelope,
  queue: string | null,
  { delaySeconds = 0, payload, id }: { delaySeconds?: number; payload?: unknown; id?: string } = {},
): Acceptance {
  const { name: workflow, deadline, version = 1 } = performer;
  const envelope = unmarked(message);
  const flow = flowOf(workflow, { envelope, payload, delaySeconds });
  const accepted = {
    id: id ?? instanceId(envelope.tenant_id, workflow, envelope.idempotency_key),
    workflow,
    version,
    envelope,
    fingerprint: payloadFingerprint(envelope),
    queue,
    delaySeconds,
    ...deadlineOf(envelope, deadline),
    ...(flow && { flow }),
  };
  return { ...accepted, row: JSON.stringify(accepted) };
}

/**
 * Returns a message without the engine's internal fields. The function first checks for these fields, because a check is several times
 * faster than a copy.
 */
function unmarked(message: Envelope): Envelope {
  if (message.acceptance === undefined && message.replay === undefined) return message;
  const { acceptance: _proof, replay: _mark, ...envelope } = message;
  return envelope;
}

/**
 * The command's own deadline. Without such a deadline, the workflow's deadline applies, counted from the acceptance by the database's
 * clock.
 */
function deadlineOf({ must_end_by: asked }: Envelope, deadline: Performer["deadline"]): Pick<NewInstance, "mustEndBy" | "deadlineMs"> {
  if (asked !== undefined) return { mustEndBy: Date.parse(asked) };
  return deadline === undefined ? {} : { deadlineMs: durationMs(deadline) };
}

/**
 * The queue message of an accepted command, with a proof that the command's row is committed. A delayed message has no proof, because an
 * operator may cancel or pause the command before the command is due. Without a proof, the consumer checks the row. A message of a paused
 * workflow or queue, or of a workflow with flow control, has no proof either.
 */
export function outgoing(secret: string, accepted: Acceptance, isHeld = false): Outgoing {
  const { envelope, queue, delaySeconds, flow } = accepted;
  const body = JSON.stringify({ ...envelope, ...(delaySeconds === 0 && !isHeld && !flow && { acceptance: prove(secret, accepted) }) });
  return { id: messageId(envelope), queue: queue ?? "", delaySeconds, body };
}

/** Acceptances as JSON strings for `json_each`. A large set of acceptances is split into several strings. */
export function acceptanceChunks(all: readonly Acceptance[]): string[] {
  return textChunks(all.map(({ row }) => row));
}

/** The fields of a message that the message's proof signs. */
interface Provable {
  readonly id: string;
  readonly fingerprint: string;
  /** The version of the workflow that the row has. A consumer of another deployment then reads and updates the row before the start. */
  readonly version: number;
  readonly envelope: { readonly created_at: string };
}

/**
 * Time in milliseconds for which a proof is valid. This time is too short for a copy of the message to fail four times, be captured and be
 * skipped by an operator. Within this time the platform also keeps every instance that the platform created.
 */
const PROOF_VALID_MS = 60_000;

/**
 * If a command's message has waited longer than this since its acceptance, the command starts only if its row permits the start. An
 * operator may have cancelled or paused the command, in a process that died before it notified the platform.
 */
const ALONE_MS = 2000;

export function hasWaited({ created_at }: Provable["envelope"]): boolean {
  return Date.now() - Date.parse(created_at) > ALONE_MS;
}

/**
 * A signature that only the engine's acceptance can create. The signature proves that a row for this message and this payload is committed.
 */
export function prove(secret: string, { id, fingerprint, version, envelope }: Provable): string {
  return signed(secret, "accepted", id, fingerprint, String(version), envelope.created_at);
}

/** True when a delivery needs no database query, because this is the first delivery of a message whose row was committed moments ago. */
export function isProven(secret: string, accepted: Provable, proof: string | undefined, attempts: number): boolean {
  if (proof === undefined || attempts !== 1) return false;
  const age = Date.now() - Date.parse(accepted.envelope.created_at);
  // Any writer to the queue can send a forged proof. The function compares bytes and not strings, because timingSafeEqual requires equal
  // lengths in bytes.
  const [said, expected] = [Buffer.from(proof), Buffer.from(prove(secret, accepted))];
  return age < PROOF_VALID_MS && said.length === expected.length && timingSafeEqual(said, expected);
}
