import { durationMs } from "../../contract/duration.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { flowOf } from "../../contract/flow.ts";
import { instanceId } from "../../contract/ids.ts";
import type { Performer } from "../../contract/message.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { textChunks } from "../../contract/sql.ts";
import type { Arrival } from "../../recorder/proof.ts";
import type { NewInstance } from "../../store/instances/accept.ts";

/** The new instance that an accepted message starts. */
export interface Acceptance extends Arrival {
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

/** Acceptances as JSON strings for `json_each`. A large set of acceptances is split into several strings. */
export function acceptanceChunks(all: readonly Acceptance[]): string[] {
  return textChunks(all.map(({ row }) => row));
}
