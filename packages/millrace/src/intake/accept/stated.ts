import type { Envelope } from "../../contract/envelope.ts";
import { digest, fingerprintOf, messageId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { rowChunks, type Statement } from "../../contract/sql.ts";
import { insertStatedMessages, type Outgoing } from "../../store/outbox.ts";
import { insertStatedEvents, type KnownEvent } from "../../store/stated-events.ts";

/** An event from outside before its acceptance. */
export interface Statable {
  /** The event's id: a pure function of its tenant, type and idempotency key. */
  readonly id: string;
  /** The fingerprint of the payload as parsed by the present definition. */
  readonly fingerprint: string;
  /** The fingerprint of the unparsed request. This fingerprint detects a repeat even after the definition has changed. */
  readonly said: string;
  readonly envelope: Envelope;
  readonly message: Outgoing;
  /** True: the record of the event's key omits the correlation id. */
  readonly isUncorrelated: boolean;
}

/**
 * The id of an event from outside: 32 hex characters. An event emitted by a step has a dot in its id (`eventKey`), so that the two kinds of
 * ids never collide.
 */
export function statedId(tenantId: string, type: string, key: string): string {
  return digest("stated", tenantId, type, key);
}

/** An event from outside, as it was requested. */
interface Asked {
  readonly schemaVersion?: number | undefined;
  readonly payload: unknown;
  readonly uncorrelated?: boolean | undefined;
}

export function statable(id: string, envelope: Envelope, queue: string, asked: Asked): Statable {
  return {
    id,
    fingerprint: payloadFingerprint(envelope),
    said: digest("said", String(asked.schemaVersion ?? ""), fingerprintOf(asked.payload)),
    envelope,
    message: { id: messageId(envelope), queue, delaySeconds: 0, body: JSON.stringify(envelope) },
    isUncorrelated: asked.uncorrelated === true,
  };
}

/** True when the event is a repeat of the event that has the same key. */
export function isRepeat({ fingerprint, said }: Statable, known: KnownEvent): boolean {
  return known.fingerprint === fingerprint || known.said === said;
}

/**
 * Stores events. Events with new keys get rows and outbox messages. Events with stored keys change nothing. All given events must have
 * different keys. The outbox statements precede the other statements, because they require that the key has no row yet. The last statements
 * return the ids of new events.
 */
export function insertStated(events: readonly Statable[]): { messages: Statement[]; fresh: Statement[] } {
  const messages = rowChunks(events.map(({ id, message }) => ({ id, message })));
  const keys = rowChunks(
    events.map(({ id, fingerprint, said, isUncorrelated, envelope: { correlation_id } }) => ({
      id,
      fingerprint,
      said,
      correlationId: isUncorrelated || correlation_id === id ? null : correlation_id,
    })),
  );
  return { messages: messages.map(insertStatedMessages), fresh: keys.map(insertStatedEvents) };
}
