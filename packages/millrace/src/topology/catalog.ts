import { assertDeclared } from "../contract/declared.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Door, type EventDefinition, OPEN } from "../contract/message.ts";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import type { AnyWorkflow, CallbackSender } from "../workflow/workflow.ts";
import type { BulkVerbOf } from "./bulk-verb.ts";
import { checkConsumers } from "./check.ts";
import { type ConsumerDefinition, ofEachQueue, routesOf, startedBy, workflowsOf } from "./consumer.ts";
import type { Hooks } from "./hooks.ts";
import { checkedHops } from "./hops.ts";
import { type Target, targetsOf } from "./routes.ts";

/** Everything a deployment knows: which messages exist, who performs them, what follows from what. */
export interface Catalog {
  readonly workflows: readonly AnyWorkflow[];
  /** One for each queue: where a declared one stands for several, as many. */
  readonly consumers: readonly ConsumerDefinition[];
  /** The types of events that a route signals to waiting runs. */
  readonly signalled: ReadonlySet<string>;
  /** The workflow that performs a command. Errors: `unknown_message_type` with the nearest name. */
  performer(type: string): AnyWorkflow;
  /** What follows from an event, and its definition. Errors: `unknown_message_type`. */
  subscribers(type: string): { event: EventDefinition; targets: readonly Target[] };
  /** The kinds of message that have this type: one, or none. */
  kindsOf(type: string): readonly Envelope["kind"][];
  /** Runs that may follow a first, one after another, before a message of their chain becomes a dead letter. */
  readonly maxHops: number;
  /** The workflow that tells the addresses which commands name of their ends; undefined where none are called. */
  readonly callbacks: CallbackSender | undefined;
  /** Functions of the deployment that are called when the way of a message ends. */
  readonly hooks: Hooks;
  /** The deployment's own verbs for bulk actions. */
  readonly bulkVerbs: readonly AnyBulkVerb[];
}

/** A verb for bulk actions, whatever its filter is: each reads its own. */
// biome-ignore lint/suspicious/noExplicitAny: a filter's type stands on both sides of functions here, so no narrower type takes them all
export type AnyBulkVerb = BulkVerbOf<any, Catalog>;

/** What a deployment is made of. */
export interface Definition extends Hooks {
  readonly consumers: readonly ConsumerDefinition[];
  /**
   * Hops of the longest chain: runs that follow a first, each started by what the one before it emitted. Default 3; at most 99. A message
   * beyond it becomes a dead letter, `too_many_hops`: so a chain that goes in a circle ends.
   */
  readonly maxHops?: number;
  /** Verbs for bulk actions, beside the engine's. Default none. */
  readonly bulkVerbs?: readonly AnyBulkVerb[];
  /** `callbackSender({ guard })`, so that commands may name a `callback_url`. Default: they may not. */
  readonly callbacks?: CallbackSender;
}

/**
 * Builds the catalog from the consumers of a deployment: its workflows are those that they start, its events those that they route.
 * Errors: `config_invalid` when a consumer starts or routes what travels on another queue, a queue has two consumers or carries commands
 * and events, a workflow or an event is listed twice, two workflows claim one name or command, a command is sent that nobody performs or
 * consumes, the line of another event starts a workflow, or `maxHops` is none.
 */
export function catalog(definition: Definition): Catalog {
  const { consumers, maxHops, callbacks, bulkVerbs = [], ...hooks } = definition ?? {};
  const isMade = Array.isArray(consumers) && consumers.every((one) => one?.queue?.name !== undefined && "deadlineMs" in one);
  assertDeclared(isMade, "A catalog is of what defineConsumer({ … }) made: give it { consumers: […] }. Are they exported?");
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
    signalled,
    performer: (type) =>
      performers.get(type) ?? (routes.has(type) ? otherKind(type, "event") : unknown("command", type, performers.keys())),
    subscribers: (type) =>
      routes.get(type) ??
      (performers.has(type) ? otherKind(type, "command", performers.get(type)?.on.door) : unknown("event", type, routes.keys())),
    kindsOf: (type) => [...(performers.has(type) ? (["command"] as const) : []), ...(routes.has(type) ? (["event"] as const) : [])],
    maxHops: checkedHops(maxHops),
    callbacks,
    hooks,
    bulkVerbs,
  };
}

/** Hint for an unknown type without a near match. */
const NEW = {
  command: " A new one needs its workflow in the starts of its queue's consumer.",
  event: " A new one needs a line in the routes of its queue's consumer, on(…).",
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

/** How each kind comes from outside. */
const DOORS = {
  command: ({ route }: Door) => `a command, not an event: ask for it with ${route}.`,
  event: () => "an event, not a command: POST /v1/events takes those that are open to the outside world.",
};

function otherKind(type: string, is: keyof typeof DOORS, door: Door = OPEN): never {
  throw new MillraceError("unknown_message_type", `"${type}" is ${DOORS[is](door)}`);
}
