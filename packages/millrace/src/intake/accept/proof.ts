import { timingSafeEqual } from "node:crypto";
import { signed } from "../../contract/ids.ts";

/** What a proof speaks of: this instance, this payload, this message. */
interface Provable {
  readonly id: string;
  readonly fingerprint: string;
  readonly envelope: { readonly created_at: string };
}

/**
 * For how long a proof stands alone. Within it no copy of the message can have been tried four times, captured and skipped
 * by a person, and the platform still knows every instance it ever created.
 */
const PROOF_VALID_MS = 60_000;

/**
 * A message that has waited longer than this since its acceptance is started only where its row says that it still is to be: a person may
 * have cancelled or paused it meanwhile, in a process that died before the platform heard of that.
 */
const ALONE_MS = 2000;

/** True for a message that has waited, behind others or in a queue that stood still. */
export function hasWaited({ created_at }: Provable["envelope"]): boolean {
  return Date.now() - Date.parse(created_at) > ALONE_MS;
}

/** A mark that only the engine's own acceptance can make: the row of this very message, with this payload, is committed. */
export function prove(secret: string, { id, fingerprint, envelope }: Provable): string {
  return signed(secret, "accepted", id, fingerprint, envelope.created_at);
}

/** True when a delivery needs no look into the database: it is the first one of a message whose row was committed moments ago. */
export function isProven(secret: string, accepted: Provable, proof: string | undefined, attempts: number): boolean {
  if (proof === undefined || attempts !== 1) return false;
  const age = Date.now() - Date.parse(accepted.envelope.created_at);
  // Whoever may write to the queue may write anything here: it is compared as bytes, which have to be as many.
  const [said, expected] = [Buffer.from(proof), Buffer.from(prove(secret, accepted))];
  return age < PROOF_VALID_MS && said.length === expected.length && timingSafeEqual(said, expected);
}
