import { type Envelope, parseEnvelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { assertBounded } from "../../contract/limits.ts";
import { decodePayload, type MessageDefinition } from "../../contract/message.ts";

/** A delivered message with a valid envelope and payload. */
export interface ReadMessage {
  readonly message: Message;
  readonly envelope: Envelope;
  readonly definition: MessageDefinition;
  /** The upcast and validated payload; undefined for a payload in R2. */
  readonly payload: unknown;
}

/** An invalid message with its error. */
export interface RefusedMessage {
  readonly message: Message;
  readonly error: unknown;
}

/** Parses a batch. `definitionOf` returns the definition of a message type, or throws. */
export function readMessages(
  messages: readonly Message[],
  definitionOf: (type: string) => MessageDefinition,
): { read: ReadMessage[]; refused: RefusedMessage[] } {
  const read: ReadMessage[] = [];
  const refused: RefusedMessage[] = [];
  for (const message of messages) {
    try {
      read.push({ message, ...readMessage(message.body, definitionOf) });
    } catch (error) {
      refused.push({ message, error });
    }
  }
  return { read, refused };
}

/**
 * Parses one message. The function checks the size limits, then the envelope, then the definition, then the payload, which it upcasts to
 * the present version. A payload in R2 is validated by the route or the instance that fetches the payload. Errors: `invalid_envelope`,
 * `unknown_message_type`, `invalid_payload`.
 */
export function readMessage(body: unknown, definitionOf: (type: string) => MessageDefinition): Omit<ReadMessage, "message"> {
  assertBounded(body);
  const envelope = parseEnvelope(body);
  const definition = definitionOf(envelope.message_type);
  if (definition.kind !== envelope.kind) {
    throw new MillraceError(
      "invalid_envelope",
      `${definition.type} is ${definition.kind === "event" ? "an event" : "a command"}: set kind to "${definition.kind}".`,
      {
        issues: [{ path: "kind", message: `must be "${definition.kind}"` }],
      },
    );
  }
  const inline = envelope.payload_ref === undefined;
  const payload = inline ? decodePayload(definition, envelope.schema_version, envelope.payload_inline) : undefined;
  return { envelope, definition, payload };
}
