import { durationMs } from "../../contract/duration.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { instanceId, messageId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { textChunks } from "../../contract/sql.ts";
import type { NewInstance } from "../../store/instances/accept.ts";
import type { Outgoing } from "../../store/outbox.ts";
import type { AnyWorkflow } from "../../workflow/workflow.ts";
import { prove } from "./proof.ts";

/** A message that is about to become an instance. */
export interface Acceptance extends NewInstance {
  readonly delaySeconds: number;
  /** All of that as JSON, which the database takes it from. */
  readonly row: string;
}

/** What an acceptance asks of the workflow that performs it. */
type Performer = Pick<AnyWorkflow, "name" | "deadline">;

/** Names the instance a message becomes: the same message, the same name. */
export function acceptance({ name: workflow, deadline }: Performer, message: Envelope, queue: string | null, delaySeconds = 0): Acceptance {
  const envelope = unmarked(message);
  const accepted = {
    id: instanceId(envelope.tenant_id, workflow, envelope.idempotency_key),
    workflow,
    envelope,
    fingerprint: payloadFingerprint(envelope),
    queue,
    delaySeconds,
    ...deadlineOf(envelope, deadline),
  };
  return { ...accepted, row: JSON.stringify(accepted) };
}

/** A message without the engine's marks. To leave fields out of an object takes several times as long as to look for them. */
function unmarked(message: Envelope): Envelope {
  if (message.acceptance === undefined && message.replay === undefined) return message;
  const { acceptance: _proof, replay: _mark, ...envelope } = message;
  return envelope;
}

/** The command's own word decides; or else the workflow's, counted from the acceptance by the database's clock. */
function deadlineOf({ must_end_by: asked }: Envelope, deadline: AnyWorkflow["deadline"]): Pick<NewInstance, "mustEndBy" | "deadlineMs"> {
  if (asked !== undefined) return { mustEndBy: Date.parse(asked) };
  return deadline === undefined ? {} : { deadlineMs: durationMs(deadline) };
}

/**
 * The message that takes an accepted command to its queue, with the proof that its row is committed. One that comes later has none: until
 * then a person may have cancelled or paused it, and its consumer asks the row.
 */
export function outgoing(secret: string, accepted: Acceptance): Outgoing {
  const { envelope, queue, delaySeconds } = accepted;
  const body = JSON.stringify({ ...envelope, ...(delaySeconds === 0 && { acceptance: prove(secret, accepted) }) });
  return { id: messageId(envelope), queue: queue ?? "", delaySeconds, body };
}

/** Acceptances as the JSON texts that `json_each` takes: one text, or a few when they are large. */
export function acceptanceChunks(all: readonly Acceptance[]): string[] {
  return textChunks(all.map(({ row }) => row));
}
