import { isElsewhere, queueBinding, workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { laneIn, queuesOf } from "../contract/queue.ts";
import type { Catalog } from "./catalog.ts";
import { ownOf, routesOf, startedBy } from "./consumer.ts";
import { type Target, targetsOf } from "./routes.ts";

/** A target of an event. */
export interface TargetRow {
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
  readonly workflow: string | null;
  /** The targets of an event. */
  readonly targets: readonly TargetRow[];
}

/** The message types that a deployment's consumers receive, sorted by type. */
export function messagesIn({ consumers }: Pick<Catalog, "consumers">): DescribedMessage[] {
  const commands = startedBy(consumers)
    .filter(({ on }) => on.kind === "command")
    .map(({ name, on }) => ({ definition: on as MessageDefinition, workflow: name, targets: [] }));
  const events = routesOf(consumers).map((route) => ({
    definition: route.event as MessageDefinition,
    workflow: null,
    targets: targetsOf(route).map(targetFrom),
  }));
  // A consumer of several queues is listed once for each queue.
  const known = new Map([...commands, ...events].map((one) => [`${one.definition.kind} ${one.definition.type}`, one]));
  return [...known.values()].sort((one, other) => (one.definition.type < other.definition.type ? -1 : 1));
}

function targetFrom(target: Target): TargetRow {
  return {
    do: target.do,
    workflow: target.do === "start" ? target.workflow.name : null,
    type: target.do === "send" ? target.command.type : null,
  };
}

/** A sender of a queue's messages: an HTTP route, a workflow, or the type of an event with a route that sends commands. */
export interface Producer {
  by: "request" | "route" | "workflow";
  name: string;
}

/** The queues and lanes of a deployment, as rows of the API, with the options of their consumers and the declared senders. */
export function queuesIn(catalog: Pick<Catalog, "consumers">) {
  const messages = messagesIn(catalog);
  return catalog.consumers.map(({ queue, routes, retries, batch, concurrency, priority, isElsewhere = false }) => {
    const lane = laneIn(queue.name);
    return {
      name: lane ?? queue.name,
      is_lane: lane !== undefined,
      kind: routes ? ("events" as const) : ("commands" as const),
      retries: { limit: retries.limit, initial_seconds: retries.initialMs / 1000, max_seconds: retries.maxMs / 1000 },
      batch_size: batch.size,
      batch_wait_seconds: batch.waitSeconds,
      concurrency,
      has_priorities: priority !== undefined,
      is_external: isElsewhere,
      dead_letter_queue: lane === undefined ? `${queue.name}-dlq` : null,
      ...carriedBy(messages, queue.name),
    };
  });
}

function carriedBy(messages: readonly DescribedMessage[], queue: string): { messages: string[]; producers: Producer[] } {
  const carried = messages.filter(({ definition }) => queuesOf(definition.queue).includes(queue));
  const types = new Set(carried.map(({ definition }) => definition.type));
  const doors = carried.flatMap(({ definition: { access } }) => (access ? [access.route] : []));
  const routes = messages.filter(({ targets }) => targets.some(({ type }) => type !== null && types.has(type)));
  const by = (what: Producer["by"], names: Iterable<string>) => Array.from(names, (name) => ({ by: what, name }));
  const names = routes.map(({ definition }) => definition.type);
  return { messages: [...types], producers: [...by("request", new Set(doors)), ...by("route", names)] };
}

/** Lists the catalog's workflows and queues without a binding in this Worker. Each sentence contains the line to add. */
export function missingIn(env: object, catalog: Pick<Catalog, "workflows" | "consumers" | "elsewhere">): string[] {
  const queues = ownOf(catalog.consumers)
    .map(({ queue }) => queue.name)
    .filter((name) => laneIn(name) === undefined);
  return [
    ...catalog.workflows.flatMap(({ name }) =>
      isElsewhere(env, name, catalog.elsewhere) ? [] : refusalOf(() => workflowBinding(env, name, catalog.elsewhere)),
    ),
    ...queues.flatMap((name) => refusalOf(() => queueBinding(env, name))),
  ];
}

/** Returns the reason why a workflow's instances cannot start in this Worker; undefined if the instances can start. */
export function notStartable(env: object, workflow: string, catalog?: Pick<Catalog, "workflows" | "elsewhere">): string | undefined {
  if (isElsewhere(env, workflow, catalog?.elsewhere)) return undefined;
  const [missing] = refusalOf(() => workflowBinding(env, workflow, catalog?.elsewhere));
  if (missing !== undefined || catalog === undefined || catalog.workflows.some(({ name }) => name === workflow)) return missing;
  return `This deployment has no workflow "${workflow}": add it to the catalog, and deploy.`;
}

function refusalOf(find: () => unknown): string[] {
  try {
    find();
    return [];
  } catch (error) {
    return [messageOf(error)];
  }
}
