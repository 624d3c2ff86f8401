import { durationMs } from "../contract/duration.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { laneIn, queuesOf } from "../contract/queue.ts";
import type { Catalog } from "./catalog.ts";
import { routesOf, startedBy } from "./consumer.ts";
import { type Target, targetsOf } from "./routes.ts";

/** A target of an event. */
export interface Follows {
  readonly do: Target["do"];
  /** The workflow that `start` starts; null for other targets. */
  readonly workflow: string | null;
  /** The type of the command that `send` sends; null for other targets. */
  readonly type: string | null;
}

/** A message type of a deployment, with its workflow or targets. */
export interface DescribedMessage {
  readonly definition: MessageDefinition;
  /** The workflow that performs a command. */
  readonly performer: string | null;
  /** The targets of an event. */
  readonly follows: readonly Follows[];
}

/** The message types that a deployment's consumers receive, sorted by type. */
export function messagesIn({ consumers }: Pick<Catalog, "consumers">): DescribedMessage[] {
  const commands = startedBy(consumers)
    .filter(({ on }) => on.kind === "command")
    .map(({ name, on }) => ({ definition: on as MessageDefinition, performer: name, follows: [] }));
  const events = routesOf(consumers).map((route) => ({
    definition: route.event as MessageDefinition,
    performer: null,
    follows: targetsOf(route).map(followsFrom),
  }));
  // A consumer of several queues is listed once for each queue.
  const known = new Map([...commands, ...events].map((one) => [`${one.definition.kind} ${one.definition.type}`, one]));
  return [...known.values()].sort((one, other) => (one.definition.type < other.definition.type ? -1 : 1));
}

function followsFrom(target: Target): Follows {
  return {
    do: target.do,
    workflow: target.do === "start" ? target.workflow.name : null,
    type: target.do === "send" ? target.command.type : null,
  };
}

/** A queue or a lane with the options of its consumer. */
export interface DescribedQueue {
  readonly name: string;
  /** True for a lane, which processes the messages of a key in order. */
  readonly isLane: boolean;
  readonly carries: "commands" | "events";
  readonly retries: { readonly limit: number; readonly initialMs: number; readonly maxMs: number };
  readonly batchSize: number;
  readonly batchWaitSeconds: number;
  readonly concurrency: number;
  readonly hasPriorities: boolean;
  /** True for a queue that another Worker consumes. */
  readonly isElsewhere: boolean;
  /** The types of the queue's messages. */
  readonly messages: string[];
  /** The declared senders of the queue's messages. These are HTTP routes, and events with a route that sends commands. */
  readonly producers: Producer[];
}

/** A sender of a queue's messages: an HTTP route, a workflow, or the type of an event with a route that sends commands. */
export interface Producer {
  by: "request" | "route" | "workflow";
  name: string;
}

export function queuesIn(catalog: Pick<Catalog, "consumers">): DescribedQueue[] {
  const messages = messagesIn(catalog);
  return catalog.consumers.map(({ queue, routes, retries, batch, concurrency, priority, isElsewhere = false }) => ({
    name: laneIn(queue.name) ?? queue.name,
    isElsewhere,
    ...carriedBy(messages, queue.name),
    isLane: laneIn(queue.name) !== undefined,
    carries: routes ? ("events" as const) : ("commands" as const),
    ...{ retries, concurrency, batchSize: batch.size, batchWaitSeconds: batch.waitSeconds, hasPriorities: priority !== undefined },
  }));
}

function carriedBy(messages: readonly DescribedMessage[], queue: string): Pick<DescribedQueue, "messages" | "producers"> {
  const carried = messages.filter(({ definition }) => queuesOf(definition.queue).includes(queue));
  const types = new Set(carried.map(({ definition }) => definition.type));
  const doors = carried.flatMap(({ definition: { door } }) => (door ? [door.route] : []));
  const routes = messages.filter(({ follows }) => follows.some(({ type }) => type !== null && types.has(type)));
  const by = (what: Producer["by"], names: Iterable<string>) => Array.from(names, (name) => ({ by: what, name }));
  const names = routes.map(({ definition }) => definition.type);
  return { messages: [...types], producers: [...by("request", new Set(doors)), ...by("route", names)] };
}

/** The deadline of each workflow in milliseconds; null for a workflow without a deadline. */
export function deadlinesIn({ workflows }: Pick<Catalog, "workflows">): ReadonlyMap<string, number | null> {
  return new Map(workflows.map(({ name, deadline }) => [name, deadline === undefined ? null : durationMs(deadline)]));
}
