import { bindingName, objectsIn } from "../contract/bindings.ts";
import { assertDeclared, isFunction } from "../contract/declared.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import type { CommandDefinition, EventDefinition } from "../contract/message.ts";
import { MAX_RATE_PER_SECOND } from "../contract/queue.ts";
import type { RowStatement } from "../contract/sql.ts";
import type { AnyWorkflow, WorkflowDefinition } from "../workflow/workflow.ts";

/** An event on its way, as the code of a target is given it. */
export interface Routed<Payload> {
  readonly payload: Payload;
  readonly envelope: Envelope;
  readonly env: Cloudflare.Env;
  /**
   * Does something once for all events of a delivered batch, such as reading a tenant's settings: whoever asks under the same name
   * shares the answer.
   */
  readonly once: <T>(name: string, make: () => Promise<T>) => Promise<T>;
}

/** What an event leads to. One that fits an event of any type has no `Type`. */
export type Target<Payload = unknown, Type extends string = never> =
  | Start<Type>
  | Send<Payload>
  | Signal
  | Project<Payload>
  | Call<Payload>;

/** An instance of a workflow that follows this event, one per event. */
interface Start<Type extends string> {
  readonly do: "start";
  /** The type of the event that the workflow follows. */
  readonly follows: Type;
  readonly workflow: AnyWorkflow;
}

/** Commands, on their own queue, each with a key of its own; committed with the event's intake. */
interface Send<Payload> {
  readonly do: "send";
  readonly command: CommandDefinition;
  readonly payloads: (event: Routed<Payload>) => readonly unknown[] | Promise<readonly unknown[]>;
  /** The payload of its one command, where that follows from the event's alone: it can be made without doing anything. */
  readonly derived?: ((payload: Payload) => unknown) | undefined;
  /** A row of our own about each command, written with the event's intake. */
  readonly row: ((command: Sent) => RowStatement) | undefined;
  /** So many of one event's commands go a second; undefined: all at once. */
  readonly ratePerSecond: number | undefined;
  readonly limitMs: number;
}

/** A command that is about to be committed. */
export interface Sent<Payload = unknown> {
  readonly payload: Payload;
  readonly envelope: Envelope;
  /** The instance that will perform it. */
  readonly instanceId: string;
}

/** The instances that wait for it, now or soon. */
interface Signal {
  readonly do: "signal";
}

/** Rows of our own, written with the event's intake: a whole batch of events is one statement. */
interface Project<Payload> {
  readonly do: "project";
  readonly row: (event: Routed<Payload>) => RowStatement | undefined;
}

/** Code that may run more than once per event and in any order: what it does must bear that. The event comes back when it throws. */
interface Call<Payload> {
  readonly do: "call";
  /** What it answers, or its promise, is waited for and dropped. */
  readonly handler: (event: Routed<Payload>) => unknown;
  readonly limitMs: number;
}

/** How long the code of a route may take about one event, unless its line says otherwise. */
const ROUTE_LIMIT: Duration = "30 seconds";

/** How code of a route is called. */
export interface CallOptions {
  /**
   * Longest wait for its answer; default 30 seconds. An event whose code took longer comes back, and in the end becomes a dead letter
   * with `route_timeout`.
   */
  timeout?: Duration;
}

/** One line of the routes of a consumer: an event, and what follows from it. */
export interface Route {
  readonly event: EventDefinition;
  readonly targets: readonly Target<never>[];
}

/** What the event of a route leads to, whatever its payload. */
export function targetsOf({ targets }: Route): readonly Target[] {
  return targets as readonly Target[];
}

/** An object that events can be told to: it remembers which keys it has applied. */
export interface EventListener {
  onEvent(envelope: Envelope): Promise<void>;
}

/** What follows from an event. No target is an answer too: the event is known, and nobody listens yet. */
export function on<Payload, Type extends string>(
  event: EventDefinition<Payload, Type>,
  ...targets: Target<NoInfer<Payload>, NoInfer<Type>>[]
): Route {
  for (const [index, target] of targets.entries()) {
    assertDeclared(
      isTarget(target as Target | undefined),
      `Target ${index + 1} of on(${event?.type}, …) is none, or names what is not there: say start(workflow), send(command, payload), sendEach(command, payloads), project(row), call(code), tell(object, name) or signal(), each called, and of what is exported.`,
    );
  }
  return { event: event as EventDefinition, targets: targets as readonly Target<never>[] };
}

/** Whether a target is one, of code that no compiler may have looked at. */
function isTarget(target: Target | undefined): boolean {
  switch (target?.do) {
    case "start":
      return isFunction(target.workflow?.run);
    case "send": {
      const made = "derived" in target ? target.derived : target.payloads;
      return target.command?.type !== undefined && isFunction(made) && (target.row === undefined || isFunction(target.row));
    }
    case "project":
      return isFunction(target.row);
    case "call":
      return isFunction(target.handler) && target.limitMs > 0;
    default:
      return target?.do === "signal";
  }
}

/** Starts an instance of a workflow that is declared `on` this event. */
export function start<Payload, Type extends string>(workflow: WorkflowDefinition<Payload, Type>): Start<Type> {
  return { do: "start", follows: workflow?.on?.type, workflow };
}

/** Sends a command derived from the event. */
export function send<Event, Payload>(command: CommandDefinition<Payload>, payload: (event: Event) => NoInfer<Payload>): Send<Event> {
  return { ...sendEach(command, (event: Routed<Event>) => [payload(event.payload)]), derived: payload };
}

/**
 * Sends as many commands as the event asks for: none, or one for each of something that is looked up. Equal keys are one command.
 * `row` keeps a row about each; a repeat must change nothing, as with `project`. `ratePerSecond` spreads one event's commands: so many begin
 * a second, the last at most 12 hours later. Errors: `config_invalid` for a rate that is none.
 */
export function sendEach<Event, Payload>(
  command: CommandDefinition<Payload>,
  payloads: (event: Routed<Event>) => readonly NoInfer<Payload>[] | Promise<readonly NoInfer<Payload>[]>,
  row?: (command: Sent<NoInfer<Payload>>) => RowStatement,
  { ratePerSecond }: { ratePerSecond?: number } = {},
): Send<Event> {
  if (ratePerSecond !== undefined && !(ratePerSecond > 0 && ratePerSecond <= MAX_RATE_PER_SECOND)) {
    throw new MillraceError(
      "config_invalid",
      `A route sends ${command.type} at ${ratePerSecond} a second: say more than 0 and at most ${MAX_RATE_PER_SECOND}.`,
    );
  }
  return {
    do: "send",
    command: command as CommandDefinition,
    payloads,
    row: row as Send<Event>["row"],
    ratePerSecond,
    limitMs: durationMs(ROUTE_LIMIT),
  };
}

/** Wakes the instances that wait for this event about its subject. */
export function signal(): Signal {
  return { do: "signal" };
}

/**
 * Keeps a row about the event, or none. Give every call the same statement text: the rows of a batch travel as one. A repeat must
 * change nothing (`ON CONFLICT`).
 */
export function project<Payload>(row: (event: Routed<Payload>) => RowStatement | undefined): Project<Payload> {
  return { do: "project", row };
}

/** Calls code. At least once, in no order; it throws to have the event delivered again. */
export function call<Payload>(handler: (event: Routed<Payload>) => unknown, { timeout = ROUTE_LIMIT }: CallOptions = {}): Call<Payload> {
  return { do: "call", handler, limitMs: durationMs(timeout) };
}

/** Tells a Durable Object, by its binding and the object's name. It dedupes by the event's idempotency key. */
export function tell<Payload>(object: string, name: (event: Payload, envelope: Envelope) => string, options?: CallOptions): Call<Payload> {
  const told: Call<Payload>["handler"] = ({ payload, envelope, env }) =>
    objectNamed(env, object, name(payload, envelope)).onEvent(envelope);
  return call(isFunction(name) && typeof object === "string" ? told : (undefined as never), options);
}

function objectNamed(env: object, object: string, name: string): EventListener {
  const namespace = objectsIn(env, bindingName(object));
  if (!namespace)
    throw new MillraceError(
      "config_invalid",
      `No Durable Object is bound as ${bindingName(object)}: add it to wrangler.jsonc, or take the route's tell() away.`,
    );
  return namespace.get(namespace.idFromName(name), placed(env)) as unknown as EventListener;
}
