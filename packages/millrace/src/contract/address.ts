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

/** Whose message it is and what caused it: everything an envelope says beyond what the message itself says. */
export interface Address extends TraceContext {
  tenantId: string;
  source: string;
  correlationId: string;
  causationId: string;
  /** Names the message if its definition derives no key, or overrides what it derives. */
  idempotencyKey?: string | undefined;
  /** The sender's own counter, where order matters to somebody. */
  sequence?: number;
  /** Where the message is kept until it is confirmed; default the engine's own outbox. */
  outbox?: "sender";
  /** The workflows whose runs led to it, the first first. */
  path?: readonly string[] | undefined;
  /** By when a command's instance is to have ended, as an ISO time. */
  mustEndBy?: string | undefined;
  /** The address that hears of each end of a command's instance. */
  callbackUrl?: string | undefined;
  /** Unique name under which a payload too large to travel is stored. */
  owner: string;
}

/**
 * Puts a message in its envelope; a payload too large to travel goes to R2. Errors: `invalid_payload` when the derived key is empty or too
 * long, for a payload that no consumer would take, and for a subject that no lane can be named by; `invalid_envelope` for any other field
 * that does not hold.
 */
export async function address(bucket: R2Bucket, draft: Draft, to: Address): Promise<Envelope> {
  assertBounded(draft.payload, { within: 1 });
  const lane = laneIn(draft.queue.name);
  // A message that is kept, and that no lane could ever take, would be sent again for ever.
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
    ...(to.callbackUrl && { callback_url: to.callbackUrl }),
    ...(to.sequence !== undefined && { sequence: to.sequence }),
    ...(await packPayload(bucket, to.tenantId, to.owner, draft.payload)),
  });
}

/** A key that a message may have. Errors: `invalid_payload`. */
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
