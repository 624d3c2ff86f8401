import { SEND_CALLBACK } from "../contract/bindings.ts";
import { assertDeclared } from "../contract/declared.ts";
import { type Elsewhere, NOWHERE, noteElsewhere } from "../contract/elsewhere.ts";
import { checkedHops, type Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Access, type EventDefinition, OPEN } from "../contract/message.ts";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import type { AnyWorkflow, CallbackSender } from "../workflow/workflow.ts";
import type { BulkVerbOf } from "./bulk-verb.ts";
import { checkConsumers } from "./check.ts";
import { type ConsumerDefinition, ofEachQueue, routesOf, startedBy, workflowsOf } from "./consumer.ts";
import type { Hooks } from "./hooks.ts";
import { type Target, targetsOf } from "./routes.ts";

/** The message types, workflows and routes of a deployment. */
export interface Catalog {
  /** The workflows of the deployment, including those of other Workers. */
  readonly workflows: readonly AnyWorkflow[];
  /**
   * The consumers of the deployment. Each queue has one consumer, and a definition for several queues appears once for each queue. Each
   * consumer of another Worker has `isElsewhere`.
   */
  readonly consumers: readonly ConsumerDefinition[];
  /** The names that other Workers own. */
  readonly elsewhere: Elsewhere;
  /** The types of events that a route signals to waiting instances. */
  readonly signalled: ReadonlySet<string>;
  /**
   * The workflow that performs a command. Errors: `unknown_message_type` for an unknown type. The error names the known type with the most
   * similar name.
   */
  performer(type: string): AnyWorkflow;
  /** The definition and the targets of an event. Errors: `unknown_message_type`. */
  subscribers(type: string): { event: EventDefinition; targets: readonly Target[] };
  /** The kinds of messages that have this type. The list is empty for an unknown type. */
  kindsOf(type: string): readonly Envelope["kind"][];
  /**
   * Maximum length of a chain in which each instance starts the next instance. If a chain is longer, the message that would continue it
   * becomes a dead letter.
   */
  readonly maxHops: number;
  /** The workflow that calls the `callback_url` of commands; undefined when callbacks are off. */
  readonly callbacks: CallbackSender | undefined;
  /** The functions of the deployment that the engine calls at the end of a message's processing. */
  readonly hooks: Hooks;
  /** The deployment's own verbs for bulk actions. */
  readonly bulkVerbs: readonly AnyBulkVerb[];
}

/** A verb of bulk actions with any type of filter. Each verb validates its own filter. */
// biome-ignore lint/suspicious/noExplicitAny: the filter's type is both a parameter and a result here, so no narrower type fits all
export type AnyBulkVerb = BulkVerbOf<any, Catalog>;

export interface Definition extends Hooks {
  readonly consumers: readonly ConsumerDefinition[];
  /**
   * Consumers that other Workers with the same database run. This Worker may send messages to them and shows them in the catalog, but
   * leaves their instances and messages to the other Workers. Default none.
   */
  readonly elsewhere?: readonly ConsumerDefinition[];
  /**
   * Maximum number of instances after the first instance of a chain. In a chain, each instance emits the event or command that starts the
   * next instance. The default is 3, and the maximum is 99. A message that would start another instance becomes a dead letter with the
   * error `too_many_hops`, so that circular chains end.
   */
  readonly maxHops?: number;
  /** Your verbs for bulk actions, in addition to the engine's verbs. Default: none. */
  readonly bulkVerbs?: readonly AnyBulkVerb[];
  /** With `callbackSender({ guard })`, a command may have a `callback_url`. By default a command with a callback URL is refused. */
  readonly callbacks?: CallbackSender;
}

/**
 * Builds the catalog from the consumers of a deployment.
 *
 * Errors: `config_invalid` in each of the following cases:
 * - A consumer starts or routes messages of another queue.
 * - A queue has two consumers, or has both commands and events.
 * - A workflow or an event is listed twice, or two workflows have the same name or command.
 * - A sent command has no workflow or no consumer.
 * - A route starts a workflow of another event.
 * - `maxHops` is not within its limits.
 */
export function catalog(definition: Definition): Catalog {
  const { consumers: own, elsewhere = [], maxHops, callbacks, bulkVerbs = [], ...hooks } = definition ?? {};
  const others = elsewhere.map((one) => ({ ...one, isElsewhere: true }));
  const consumers = Array.isArray(own) ? [...own, ...others] : others;
  const isMade = Array.isArray(own) && consumers.every((one) => one?.queue?.name !== undefined && "deadlineMs" in one);
  assertDeclared(isMade, "A catalog needs { consumers: […] }, with results of defineConsumer({ … }). Check that they are exported.");
  checkConsumers(consumers);
  const workflows = [...workflowsOf(consumers), ...(callbacks ? [callbacks] : [])];
  const performers = new Map(startedBy(consumers).map((workflow) => [workflow.on.type, workflow]));
  const routes = new Map(routesOf(consumers).map((route) => [route.event.type, { event: route.event, targets: targetsOf(route) }]));
  const signalled = new Set(
    [...routes.values()].filter(({ targets }) => targets.some((target) => target.do === "signal")).map(({ event }) => event.type),
  );
  return {
    workflows,
    consumers: consumers.flatMap(ofEachQueue),
    elsewhere: others.length === 0 ? NOWHERE : left(others, own, callbacks),
    signalled,
    performer: (type) =>
      performers.get(type) ?? (routes.has(type) ? otherKind(type, "event") : unknown("command", type, performers.keys())),
    subscribers: (type) =>
      routes.get(type) ??
      (performers.has(type) ? otherKind(type, "command", performers.get(type)?.on.access) : unknown("event", type, routes.keys())),
    kindsOf: (type) => [...(performers.has(type) ? (["command"] as const) : []), ...(routes.has(type) ? (["event"] as const) : [])],
    maxHops: checkedHops(maxHops),
    callbacks,
    hooks,
    bulkVerbs,
  };
}

/** Collects the names that other Workers own. If this Worker has no workflow for callbacks, another Worker sends the callbacks. */
function left(others: readonly ConsumerDefinition[], own: readonly ConsumerDefinition[], callbacks: CallbackSender | undefined): Elsewhere {
  const names = (consumers: readonly ConsumerDefinition[], hasCallbacks: boolean) =>
    new Set([...workflowsOf(consumers).map(({ name }) => name), ...(hasCallbacks ? [SEND_CALLBACK] : [])]);
  const workflows = names(others, callbacks === undefined);
  noteElsewhere(workflows, names(own, callbacks !== undefined));
  const queues = others.flatMap(ofEachQueue).map(({ queue }) => queue.name);
  return { workflows, queues: new Set(queues), commands: new Set(startedBy(others).map(({ on }) => on.type)) };
}

/** The hint in the error for an unknown type, if no known type has a similar name. */
const NEW = {
  command: " For a new command, add its workflow to `workflows: […]` of millrace({ … }), or to the starts of its queue's consumer.",
  event: " For a new event, add on(…) to the routes of its queue's consumer.",
};

function unknown(kind: keyof typeof NEW, type: string, known: Iterable<string>): never {
  const guess = nearest(type, known);
  throw new MillraceError(
    "unknown_message_type",
    `No ${kind} "${beginning(type, 100)}" is known here.${guess ? ` Did you mean "${guess}"?` : NEW[kind]}`,
    {
      ...(guess && { didYouMean: guess }),
    },
  );
}

const DOORS = {
  command: ({ route }: Access) => `a command, not an event: send it with ${route}.`,
  event: () => "an event, not a command: publish it with POST /v1/events, if its definition has an access.",
};

function otherKind(type: string, is: keyof typeof DOORS, access: Access = OPEN): never {
  throw new MillraceError("unknown_message_type", `"${type}" is ${DOORS[is](access)}`);
}

/** Returns the names of a deployment's workflows and event types. The hashes in keys are computed from these names. */
export function namesOf(catalog: Pick<Catalog, "workflows" | "consumers">): { workflows: string[]; events: string[] } {
  return {
    workflows: catalog.workflows.map(({ name }) => name),
    events: [...new Set(routesOf(catalog.consumers).map(({ event }) => event.type))],
  };
}
