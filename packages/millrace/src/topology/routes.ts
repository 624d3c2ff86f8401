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

/** An accepted event that is passed to the code of a target. */
export interface Routed<Payload> {
  readonly payload: Payload;
  readonly envelope: Envelope;
  readonly env: Cloudflare.Env;
  /**
   * Runs `make` once for each name in each batch of events, for example to read a tenant's settings. All calls of `once` with the same name
   * get the same result.
   */
  readonly once: <T>(name: string, make: () => Promise<T>) => Promise<T>;
}

/** A target of an event. A target that fits any event type has no type parameter `Type`. */
export type Target<Payload = unknown, Type extends string = never> =
  | Start<Type>
  | Send<Payload>
  | Signal
  | Project<Payload>
  | Call<Payload>;

/** Starts one instance of the workflow per event. */
interface Start<Type extends string> {
  readonly do: "start";
  /** The type of the event that starts the workflow, from its `on`. */
  readonly follows: Type;
  readonly workflow: AnyWorkflow;
}

/** Sends commands, each on the queue of its type and with its own key. The commands are committed with the acceptance of the event. */
interface Send<Payload> {
  readonly do: "send";
  readonly command: CommandDefinition;
  readonly payloads: (event: Routed<Payload>) => readonly unknown[] | Promise<readonly unknown[]>;
  /** Computes the payload of the only command, if the event's payload alone determines the command's payload. */
  readonly derived?: ((payload: Payload) => unknown) | undefined;
  /** A row of your table about each command, written with the acceptance of the event. */
  readonly row: ((command: Sent) => RowStatement) | undefined;
  /** Maximum count of commands per second for one event. If undefined, there is no limit. */
  readonly ratePerSecond: number | undefined;
  readonly limitMs: number;
}

export interface Sent<Payload = unknown> {
  readonly payload: Payload;
  readonly envelope: Envelope;
  /** The instance that will perform the command. */
  readonly instanceId: string;
}

/** Wakes the instances that wait for the event now or will soon wait for the event. */
interface Signal {
  readonly do: "signal";
}

/** Your rows, which are written with the acceptance of the event. One statement writes the rows of a whole batch. */
interface Project<Payload> {
  readonly do: "project";
  readonly row: (event: Routed<Payload>) => RowStatement | undefined;
}

/**
 * Code that may run more than once per event and in any order. Therefore the code must be idempotent. When the code throws, the event is
 * delivered again.
 */
interface Call<Payload> {
  readonly do: "call";
  /** The engine awaits the result of the handler, and ignores the value. */
  readonly handler: (event: Routed<Payload>) => unknown;
  readonly limitMs: number;
  /** True for code that runs after the commit. */
  readonly isLate: boolean;
}

/** The default time limit of a target's code for one event. */
const ROUTE_LIMIT: Duration = "30 seconds";

export interface CallOptions {
  /**
   * Time limit of the target's code for one event; default 30 seconds. An event whose code exceeds the limit is retried, and finally
   * becomes a dead letter with `route_timeout`.
   */
  timeout?: Duration;
  /**
   * With `commit`, the code runs after the commit of the event's commands and rows. Therefore a failure of the code does not prevent the
   * commit. By default the code runs before the commit.
   */
  after?: "commit";
}

/** An event and its targets. */
export interface Route {
  readonly event: EventDefinition;
  readonly targets: readonly Target<never>[];
}

export function targetsOf({ targets }: Route): readonly Target[] {
  return targets as readonly Target[];
}

/** A Durable Object that receives events. The Durable Object must deduplicate by idempotency key. */
export interface EventListener {
  onEvent(envelope: Envelope): Promise<void>;
}

/** Declares the targets of an event. An event without a target is accepted and starts nothing. */
export function on<Payload, Type extends string>(
  event: EventDefinition<Payload, Type>,
  ...targets: Target<NoInfer<Payload>, NoInfer<Type>>[]
): Route {
  for (const [index, target] of targets.entries()) {
    assertDeclared(
      isTarget(target as Target | undefined),
      `Target ${index + 1} of on(${event?.type}, …) is invalid: use start(workflow), send(command, payload), sendEach(command, payloads), project(row), call(code), tell(object, name) or signal(). Check that it is called, and that its arguments are exported.`,
    );
  }
  return { event: event as EventDefinition, targets: targets as readonly Target<never>[] };
}

/** Checks a target, because it may come from JavaScript without type checks. */
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

/** Starts an instance of a workflow whose `on` is this event. */
export function start<Payload, Type extends string>(workflow: WorkflowDefinition<Payload, Type>): Start<Type> {
  return { do: "start", follows: workflow?.on?.type, workflow };
}

/** Sends a command derived from the event. */
export function send<Event, Payload>(command: CommandDefinition<Payload>, payload: (event: Event) => NoInfer<Payload>): Send<Event> {
  return { ...sendEach(command, (event: Routed<Event>) => [payload(event.payload)]), derived: payload };
}

/**
 * Sends one command for each payload, or none. Payloads with equal keys send one command. `row` writes your row about each command. A
 * repeated statement must change nothing, like a statement of `project`. `ratePerSecond` spreads the commands of an event over a time of at
 * most 12 hours. Errors: `config_invalid` for an invalid rate of commands.
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
      `A route sends ${command.type} at ${ratePerSecond} a second: use more than 0 and at most ${MAX_RATE_PER_SECOND}.`,
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

/** Wakes the instances that wait for this event with its subject. */
export function signal(): Signal {
  return { do: "signal" };
}

/**
 * Writes a row of your table about the event, or none. Use the same statement text in every call, because one statement writes all rows of
 * a batch. Repeating the statement must change nothing (`ON CONFLICT`).
 */
export function project<Payload>(row: (event: Routed<Payload>) => RowStatement | undefined): Project<Payload> {
  return { do: "project", row };
}

/** Calls your code at least once per event, in no particular order. When the code throws, the event is delivered again. */
export function call<Payload>(
  handler: (event: Routed<Payload>) => unknown,
  { timeout = ROUTE_LIMIT, after }: CallOptions = {},
): Call<Payload> {
  return { do: "call", handler, limitMs: durationMs(timeout), isLate: after === "commit" };
}

/** Sends the event to a Durable Object, selected by its binding and name. The Durable Object must deduplicate by idempotency key. */
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
      `No Durable Object is bound as ${bindingName(object)}: add it to wrangler.jsonc, or remove the target from the route.`,
    );
  return namespace.get(namespace.idFromName(name), placed(env)) as unknown as EventListener;
}
