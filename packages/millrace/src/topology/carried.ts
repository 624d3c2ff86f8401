import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { queuesOf } from "../contract/queue.ts";
import type { Catalog } from "./catalog.ts";

/**
 * Finds the definition of a message type on a queue. Errors: `unknown_message_type`, which names the queue of the type, or the known type
 * with the most similar name.
 */
export function carried(catalog: Catalog, queue: string, kind: Envelope["kind"], type: string): MessageDefinition {
  const definition = kind === "event" ? catalog.subscribers(type).event : catalog.performer(type).on;
  if (queuesOf(definition.queue).includes(queue)) return definition;
  throw new MillraceError(
    "unknown_message_type",
    `The queue ${queue} does not carry "${type}": send it to the queue ${definition.queue.name}, which does.`,
  );
}
