import type { Envelope } from "../contract/envelope.ts";
import type { MessageDefinition } from "../contract/message.ts";
import type { WorkflowDefinition } from "../guard/workflow.ts";

/** What an event leads to. */
export type Target<Payload = unknown> =
  /** An instance of a workflow that follows this event, one per event. */
  | { readonly do: "start"; readonly workflow: WorkflowDefinition<Payload> }
  /** A command, on its own queue, with a key of its own. */
  | { readonly do: "send"; readonly command: MessageDefinition; readonly payload: (event: Payload) => unknown }
  /** The instances that wait for it, now or soon. */
  | { readonly do: "signal" }
  /** A Durable Object, which dedupes by the event's idempotency key: at least once, in no order. */
  | { readonly do: "tell"; readonly object: string; readonly name: (event: Payload, envelope: Envelope) => string };

/** One line of the routing table. */
export interface Route {
  readonly event: MessageDefinition;
  readonly targets: readonly Target<never>[];
}

/** An object that events can be told to: it remembers which keys it has applied. */
export interface EventListener {
  onEvent(envelope: Envelope): Promise<void>;
}

/** What follows from an event. No target is an answer too: the event is known, and nobody listens yet. */
export function on<Payload>(event: MessageDefinition<Payload>, ...targets: Target<NoInfer<Payload>>[]): Route {
  return { event: event as MessageDefinition, targets: targets as readonly Target<never>[] };
}

/** Starts an instance of a workflow that is declared `on` this event. */
export function start<Payload>(workflow: WorkflowDefinition<Payload>): Target<Payload> {
  return { do: "start", workflow };
}

/** Sends a command derived from the event. */
export function send<Event, Payload>(command: MessageDefinition<Payload>, payload: (event: Event) => NoInfer<Payload>): Target<Event> {
  return { do: "send", command: command as MessageDefinition, payload };
}

/** Wakes the instances that wait for this event about its subject. */
export function signal(): { readonly do: "signal" } {
  return { do: "signal" };
}

/** Tells a Durable Object, by its binding and the object's name. */
export function tell<Payload>(object: string, name: (event: Payload, envelope: Envelope) => string): Target<Payload> {
  return { do: "tell", object, name };
}
