import type { Envelope } from "../../contract/envelope.ts";
import { digest, fingerprintOf, messageId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { rowChunks, type Statement } from "../../contract/sql.ts";
import { insertStatedMessages, type Outgoing } from "../../store/outbox.ts";
import { insertStatedEvents, type KnownEvent } from "../../store/stated-events.ts";

/** An event that is about to be taken from outside. */
export interface Statable {
  /** The event's name: a pure function of whose it is, its type and the key it was stated under. */
  readonly id: string;
  /** What it says, as today's definition reads it. */
  readonly fingerprint: string;
  /** How it was said, word for word: the same request, whatever a later definition reads in it. */
  readonly said: string;
  readonly envelope: Envelope;
  readonly message: Outgoing;
}

/**
 * Names the event that somebody states under a key: 32 hex characters. What a step emits is never called so: its name has a dot
 * (`eventKey`).
 */
export function statedId(tenantId: string, type: string, key: string): string {
  return digest("stated", tenantId, type, key);
}

/** A request as it came. */
interface Asked {
  readonly schemaVersion?: number | undefined;
  readonly payload: unknown;
}

/** An event with everything that is committed of it. */
export function statable(id: string, envelope: Envelope, queue: string, asked: Asked): Statable {
  return {
    id,
    fingerprint: payloadFingerprint(envelope),
    said: digest("said", String(asked.schemaVersion ?? ""), fingerprintOf(asked.payload)),
    envelope,
    message: { id: messageId(envelope), queue, delaySeconds: 0, body: JSON.stringify(envelope) },
  };
}

/** True when an event is the one that is known under its key. */
export function isRepeat({ fingerprint, said }: Statable, known: KnownEvent): boolean {
  return known.fingerprint === fingerprint || known.said === said;
}

/**
 * Takes events: those whose keys are free get their rows and their place in the outbox; known keys change nothing. The keys must differ.
 * The messages come first, because only then no row of theirs is there yet. The last statements answer the ids that are new.
 */
export function insertStated(events: readonly Statable[]): { messages: Statement[]; fresh: Statement[] } {
  const messages = rowChunks(events.map(({ id, message }) => ({ id, message })));
  const keys = rowChunks(
    events.map(({ id, fingerprint, said, envelope: { correlation_id } }) => ({
      id,
      fingerprint,
      said,
      correlationId: correlation_id === id ? null : correlation_id,
    })),
  );
  return { messages: messages.map(insertStatedMessages), fresh: keys.map(insertStatedEvents) };
}
