import type { Envelope } from "../contract/envelope.ts";
import { instanceId, messageId } from "../contract/ids.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { textChunks } from "../contract/sql.ts";
import type { NewInstance } from "../store/instances/accept.ts";
import type { Outgoing } from "../store/outbox.ts";
import { prove } from "./proof.ts";

/** A message that is about to become an instance. */
export interface Acceptance extends NewInstance {
  readonly delaySeconds: number;
  /** All of that as JSON, which the database takes it from. */
  readonly row: string;
}

/** Names the instance a message becomes: the same message, the same name. */
export function acceptance(workflow: string, message: Envelope, queue: string | null, delaySeconds = 0): Acceptance {
  const { acceptance: _proof, replay: _mark, ...envelope } = message;
  const accepted = {
    id: instanceId(envelope.tenant_id, workflow, envelope.idempotency_key),
    workflow,
    envelope,
    fingerprint: payloadFingerprint(envelope),
    queue,
    delaySeconds,
  };
  return { ...accepted, row: JSON.stringify(accepted) };
}

/** The message that takes an accepted command to its queue, with the proof that its row is committed. */
export function outgoing(secret: string, accepted: Acceptance): Outgoing {
  const { envelope, queue, delaySeconds } = accepted;
  const body = JSON.stringify({ ...envelope, acceptance: prove(secret, accepted) });
  return { id: messageId(envelope), queue: queue ?? "", delaySeconds, body };
}

/** Acceptances as the JSON texts that `json_each` takes: one text, or a few when they are large. */
export function acceptanceChunks(all: readonly Acceptance[]): string[] {
  return textChunks(all.map(({ row }) => row));
}
