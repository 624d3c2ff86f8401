import type { Envelope } from "../contract/envelope.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { type Door, type Draft, type EventDefinition, OPEN } from "../contract/message.ts";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import { within } from "../contract/within.ts";
import type { AnyWorkflow } from "../workflow/workflow.ts";
import { check } from "./check.ts";
import { type ConsumerDefinition, routesOf, startedBy, workflowsOf } from "./consumer.ts";
import { type Target, targetsOf } from "./routes.ts";

/** Everything a deployment knows: which messages exist, who performs them, what follows from what. */
export interface Catalog {
  readonly workflows: readonly AnyWorkflow[];
  readonly consumers: readonly ConsumerDefinition[];
  /** The types of events that a route signals to waiting runs. */
  readonly signalled: ReadonlySet<string>;
  /** The workflow that performs a command. Errors: `unknown_message_type` with the nearest name. */
  performer(type: string): AnyWorkflow;
  /** What follows from an event, and its definition. Errors: `unknown_message_type`. */
  subscribers(type: string): { event: EventDefinition; targets: readonly Target[] };
  /** The kinds of message that have this type: one, two where a command and an event are called alike, or none. */
  kindsOf(type: string): readonly Envelope["kind"][];
  /**
   * Says of events that they are durable here, to those senders that keep them until they hear it (`outbox: "sender"`). Never throws: a
   * sender that does not hear of it sends again.
   */
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
  readonly consumers: readonly ConsumerDefinition[];
  /**
   * Called with events marked `outbox: "sender"` that were taken in, or captured as dead letters, so that their senders (a Durable Object,
   * with its own storage) can forget them.
   */
  readonly onConfirmed?: (env: Cloudflare.Env, messages: readonly Envelope[]) => Promise<void>;
  /** Messages that are committed with the giving up of a dead letter, such as a fact for the books. */
  readonly onSkipped?: (letter: SkippedLetter) => readonly Draft[];
}

/**
 * Builds the catalog from the consumers of a deployment: its workflows are those that they start, its events those that they route.
 * Errors: `config_invalid` when a consumer starts or routes what travels on another queue, a queue has two consumers or carries commands
 * and events, a workflow or an event is listed twice, two workflows claim one name or command, a command is sent that nobody performs or
 * consumes, or the line of another event starts a workflow.
 */
export function catalog({ consumers, onConfirmed, onSkipped }: Definition): Catalog {
  check(consumers);
  const workflows = workflowsOf(consumers);
  const performers = new Map(startedBy(consumers).map((workflow) => [workflow.on.type, workflow]));
  const routes = new Map(routesOf(consumers).map((route) => [route.event.type, { event: route.event, targets: targetsOf(route) }]));
  const signalled = new Set(
    [...routes.values()].filter(({ targets }) => targets.some((target) => target.do === "signal")).map(({ event }) => event.type),
  );
  return {
    workflows,
    consumers,
    signalled,
    performer: (type) =>
      performers.get(type) ?? (routes.has(type) ? otherKind(type, "event") : unknown("command", type, performers.keys())),
    subscribers: (type) =>
      routes.get(type) ??
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
