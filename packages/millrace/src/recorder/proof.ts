import { timingSafeEqual } from "node:crypto";
import { signed } from "../contract/ids.ts";
import type { NewInstance } from "../store/instances/accept.ts";
import type { Outgoing } from "../store/outbox.ts";

/** A command before its row is committed, as its row in JSON contains it. */
export interface Arrival extends NewInstance {
  readonly delaySeconds: number;
}

/**
 * The queue message of an accepted command, with a proof that the command's row is committed. A delayed message has no proof, because an
 * operator may cancel or pause the command before the command is due. Without a proof, the consumer checks the row. A message of a paused
 * workflow or queue, or of a workflow with flow control, has no proof either. The message has the id of the instance, because the command
 * has no row in the outbox.
 */
export function outgoing(secret: string, accepted: Arrival, isHeld = false): Outgoing {
  const { envelope, queue, delaySeconds, flow } = accepted;
  const body = JSON.stringify({ ...envelope, ...(delaySeconds === 0 && !isHeld && !flow && { acceptance: prove(secret, accepted) }) });
  return { id: accepted.id, queue: queue ?? "", delaySeconds, body };
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

/** True for the first delivery of a message with a valid proof. Such a delivery needs no database query. */
export function isProven(secret: string, accepted: Provable, proof: string | undefined, attempts: number): boolean {
  if (proof === undefined || attempts !== 1) return false;
  const age = Date.now() - Date.parse(accepted.envelope.created_at);
  // Any writer to the queue can send a forged proof. The function compares bytes and not strings, because timingSafeEqual requires equal
  // lengths in bytes.
  const [said, expected] = [Buffer.from(proof), Buffer.from(prove(secret, accepted))];
  return age < PROOF_VALID_MS && said.length === expected.length && timingSafeEqual(said, expected);
}
