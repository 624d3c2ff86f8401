import { isDotsAlone, NO_ADDRESS } from "./chosen-name.ts";
import { type Envelope, parseEnvelope } from "./envelope.ts";
import { MillraceError } from "./errors.ts";
import { assertBounded } from "./limits.ts";
import type { Draft } from "./message.ts";
import { objectNameOf } from "./object-name.ts";
import { packPayload } from "./payload.ts";
import { laneIn } from "./queue.ts";
import { beginning, characterCount } from "./text.ts";
import type { TraceContext } from "./trace.ts";

/** The envelope fields that do not come from the message's definition and payload. */
export interface Address extends TraceContext {
  tenantId: string;
  source: string;
  correlationId: string;
  causationId: string;
  /** The message's idempotency key, for a definition without a `key` or in place of the derived key. */
  idempotencyKey?: string | undefined;
  /** The sender's own sequence number of the message, if the order of messages matters. */
  sequence?: number;
  /** The outbox that stores the message until it is confirmed; default: the engine's own outbox. */
  outbox?: "sender";
  /** The workflows of the chain of instances that led to the message, oldest instance first. */
  path?: readonly string[] | undefined;
  /** The deadline of a command's instance, as an ISO time. */
  mustEndBy?: string | undefined;
  /** The address to call each time a run of a command's instance ends. */
  callbackUrl?: string | undefined;
  /** The parent of the command's instance, which is a child. */
  parent?: string | undefined;
  /** The unique name under which a large payload is stored in R2. */
  owner: string;
}

/**
 * Creates the envelope of a message; a large payload is stored in R2. Errors: `invalid_payload` for a derived key that is empty or too
 * long, for a payload that no consumer would accept, and for a subject that is invalid as a lane's key; `invalid_envelope` for any other
 * invalid field.
 */
export async function address(bucket: R2Bucket, draft: Draft, to: Address): Promise<Envelope> {
  assertBounded(draft.payload, { within: 1 });
  const lane = laneIn(draft.queue.name);
  // The lane's key is checked before the message is stored, because a message that no lane accepts would be sent again forever.
  if (lane !== undefined) objectNameOf([lane, to.tenantId, draft.subject], "subject");
  return parseEnvelope({
    schema_version: draft.version,
    message_type: draft.type,
    kind: draft.kind,
    source: to.source,
    correlation_id: to.correlationId,
    causation_id: beginning(to.causationId, 300),
    idempotency_key: checkedKey(draft.type, to.idempotencyKey ?? draft.key ?? to.owner),
    subject: draft.subject,
    tenant_id: to.tenantId,
    created_at: new Date().toISOString(),
    traceparent: to.traceparent,
    ...(to.tracestate && { tracestate: to.tracestate }),
    ...(to.path && { path: to.path }),
    ...(to.outbox && { outbox: to.outbox }),
    ...(to.mustEndBy && { must_end_by: to.mustEndBy }),
    ...(draft.tags?.length && { tags: [...new Set(draft.tags)] }),
    ...(to.parent && { parent: to.parent }),
    ...(to.callbackUrl && { callback_url: to.callbackUrl }),
    ...(to.sequence !== undefined && { sequence: to.sequence }),
    ...(await packPayload(bucket, to.tenantId, to.owner, draft.payload)),
  });
}

/** Validates an idempotency key. Errors: `invalid_payload`. */
export function checkedKey(type: string, key: string): string {
  if (isDotsAlone(key)) {
    const issues = [{ path: "idempotency_key", message: NO_ADDRESS }];
    throw new MillraceError("invalid_payload", `The idempotency key of ${type} ${NO_ADDRESS}.`, { issues });
  }
  const count = characterCount(key);
  if (count >= 1 && count <= 500) return key;
  throw new MillraceError("invalid_payload", `The idempotency key of ${type} must have 1 to 500 characters; this one has ${count}.`, {
    issues: [{ path: "idempotency_key", message: "must have 1 to 500 characters" }],
  });
}
