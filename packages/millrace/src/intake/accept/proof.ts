import { timingSafeEqual } from "node:crypto";
import { signed } from "../../contract/ids.ts";

/** The parts of a message that its proof signs. */
interface Provable {
  readonly id: string;
  readonly fingerprint: string;
  readonly envelope: { readonly created_at: string };
}

/**
 * Validity of a proof, in milliseconds. Within this time no copy of the message can have failed four times, been captured and been skipped
 * by an operator, and the platform still has every instance it created.
 */
const PROOF_VALID_MS = 60_000;

/**
 * A message that has waited longer than this since its acceptance is started only if its row allows it. An operator may have cancelled or
 * paused it, and the process may have died before it notified the platform.
 */
const ALONE_MS = 2000;

export function hasWaited({ created_at }: Provable["envelope"]): boolean {
  return Date.now() - Date.parse(created_at) > ALONE_MS;
}

/** A signature that only the engine's acceptance can create. It proves that the row of this message, with this payload, is committed. */
export function prove(secret: string, { id, fingerprint, envelope }: Provable): string {
  return signed(secret, "accepted", id, fingerprint, envelope.created_at);
}

/** True when a delivery needs no database query: it is the first delivery of a message whose row was committed moments ago. */
export function isProven(secret: string, accepted: Provable, proof: string | undefined, attempts: number): boolean {
  if (proof === undefined || attempts !== 1) return false;
  const age = Date.now() - Date.parse(accepted.envelope.created_at);
  // Any writer to the queue can send a forged proof. The proof is compared as bytes, because timingSafeEqual requires equal lengths.
  const [said, expected] = [Buffer.from(proof), Buffer.from(prove(secret, accepted))];
  return age < PROOF_VALID_MS && said.length === expected.length && timingSafeEqual(said, expected);
}
