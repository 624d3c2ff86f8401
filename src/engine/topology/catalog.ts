import type { Envelope } from "../contract/envelope.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { type Door, type Draft, type EventDefinition, OPEN } from "../contract/message.ts";
import { nearest } from "../contract/nearest.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import { beginning } from "../contract/text.ts";
import { within } from "../contract/within.ts";
import { type AnyWorkflow, declareSignals } from "../guard/workflow.ts";
import type { Route, Target } from "./routes.ts";

/** Everything a deployment knows: which messages exist, who performs them, what follows from what. */
export interface Catalog {
  readonly workflows: readonly AnyWorkflow[];
  readonly queues: readonly QueueDefinition[];
  /** The workflow that performs a command. Errors: `unknown_message_type` with the nearest name. */
  performer(type: string): AnyWorkflow;
  /** What follows from an event, and its definition. Errors: `unknown_message_type`. */
  subscribers(type: string): { event: EventDefinition; targets: readonly Target[] };
  /** The kinds of message that have this type: one, two where a command and an event are called alike, or none. */
  kindsOf(type: string): readonly Envelope["kind"][];
  /** Says of events that they are durable here, to those senders that keep them until they hear it (`outbox: "sender"`). Never throws: a sender that does not hear of it sends again. */
  confirm(env: object, messages: readonly Envelope[]): Promise<void>;
  /** What is to be said when a dead letter is given up: by an operator, or by retention because nobody looked after it. */
  said(skipped: SkippedLetter): readonly Draft[];
}

/** Senders that do not answer hold up no other message: they will hear it when they send again. */
const CONFIRM_LIMIT_MS = 10_000;

/** A dead letter that was given up. */
export interface SkippedLetter {
  id: string;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  /** Why it was one. */
  reason: string;
  /** Why it was given up, and by whom; `retention` where its time was over. */
  because: string;
  actor: string;
  at: Date;
}

/** What a deployment is made of. */
interface Definition {
  readonly workflows: readonly AnyWorkflow[];
  readonly routes: readonly Route[];
  /** Called with events marked `outbox: "sender"` that were taken in, or captured as dead letters, so that their senders (a Durable Object, with its own storage) can forget them. */
  readonly onConfirmed?: (env: Cloudflare.Env, messages: readonly Envelope[]) => Promise<void>;
  /** Messages that are committed with the giving up of a dead letter, such as a fact for the books. */
  readonly onSkipped?: (letter: SkippedLetter) => readonly Draft[];
}

/**
 * Builds the catalog and checks it. Errors: `config_invalid` when two workflows claim one name or command, when a command is
 * sent that nobody performs, when a queue carries
 * commands and events, when a workflow follows an event that no route starts it from, or when the route of another event starts it.
 */
export function catalog(definition: Definition): Catalog {
  const { workflows, onConfirmed, onSkipped } = definition;
  const routes = new Map(definition.routes.map((route) => [route.event.type, route]));
  const performers = new Map(
    workflows.filter((workflow) => workflow.on.kind === "command").map((workflow) => [workflow.on.type, workflow]),
  );
  check(workflows, definition.routes, performers);
  const signalled = new Set(
    definition.routes
      .filter(({ targets }) => (targets as readonly Target[]).some((target) => target.do === "signal"))
      .map(({ event }) => event.type),
  );
  for (const workflow of workflows) declareSignals(workflow, signalled);
  return {
    workflows,
    queues: [...new Set([...workflows.map((workflow) => workflow.on.queue), ...definition.routes.map((route) => route.event.queue)])],
    performer: (type) =>
      performers.get(type) ?? (routes.has(type) ? otherKind(type, "event") : unknown("command", type, performers.keys())),
    subscribers: (type) =>
      (routes.get(type) as { event: EventDefinition; targets: readonly Target[] } | undefined) ??
      (performers.has(type) ? otherKind(type, "command", performers.get(type)?.on.door) : unknown("event", type, routes.keys())),
    kindsOf: (type) => [...(performers.has(type) ? (["command"] as const) : []), ...(routes.has(type) ? (["event"] as const) : [])],
    confirm: async (env, taken) => {
      const kept = taken.filter(({ outbox }) => outbox === "sender");
      if (kept.length === 0 || onConfirmed === undefined) return;
      await within(onConfirmed(env as Cloudflare.Env, kept), CONFIRM_LIMIT_MS).catch((error) =>
        console.warn(JSON.stringify({ log: "confirm", messages: kept.length, error: messageOf(error) })),
      );
    },
    said: (skipped) => onSkipped?.(skipped) ?? [],
  };
}

function check(workflows: readonly AnyWorkflow[], routes: readonly Route[], performers: ReadonlyMap<string, AnyWorkflow>): void {
  const targets = routes.flatMap((route) => route.targets as readonly Target[]);
  const started = new Set(targets.map((target) => (target.do === "start" ? target.workflow.name : undefined)));
  const sent = targets.flatMap((target) => (target.do === "send" ? [target.command.type] : []));
  refuse(twice(workflows.map((workflow) => workflow.name)), (name) => `Two workflows are named "${name}": rename one.`);
  refuse(
    twice(workflows.filter((workflow) => workflow.on.kind === "command").map((workflow) => workflow.on.type)),
    (type) => `Two workflows perform "${type}": a command has one owner; make it an event, or two commands.`,
  );
  const asked = workflows.filter(({ on }) => on.kind === "command").map(({ on }) => on.queue.name);
  refuse(
    routes.map((route) => route.event.queue.name).find((name) => asked.includes(name)),
    (name) => `The queue "${name}" carries commands and events: give the events the shared queue of events, or a queue of their own.`,
  );
  refuse(twice(routes.map((route) => route.event.type)), (type) => `"${type}" is routed twice: put all its targets into one line.`);
  const astray = routes.flatMap(({ event: { type }, targets }) =>
    (targets as readonly Target[]).flatMap((target) =>
      target.do === "start" && target.follows !== type
        ? [`"${target.workflow.name}" follows "${target.follows}", and the line of "${type}" starts it: move its start(…).`]
        : [],
    ),
  );
  refuse(astray[0], (said) => said);
  refuse(
    sent.find((type) => !performers.has(type)),
    (type) => `A route sends "${type}", which no workflow performs: add its workflow to the catalog.`,
  );
  refuse(
    workflows.find((workflow) => workflow.on.kind === "event" && !started.has(workflow.name))?.name,
    (name) => `"${name}" follows an event, but no route starts it: add on(Event, start(…)).`,
  );
}

function refuse(found: string | undefined, say: (found: string) => string): void {
  if (found !== undefined) throw new MillraceError("config_invalid", say(found));
}

function twice(names: readonly string[]): string | undefined {
  return names.find((name, index) => names.indexOf(name) !== index);
}

/** What a type that resembles no other probably lacks. */
const NEW = { command: " A new one needs its workflow in the catalog.", event: " A new one needs a line in the routes, on(…)." };

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
