import type * as z from "zod";
import { assertDeclared, isFunction, isSchema, isWhole } from "./declared.ts";
import { type Envelope, firstOf, isDottedType, issuesIn, MAX_TYPE_CHARACTERS } from "./envelope.ts";
import { type Issue, MillraceError, messageOf } from "./errors.ts";
import { unknownFields } from "./known-fields.ts";
import { isQueueName, MAX_DELAY_SECONDS, type QueueDefinition } from "./queue.ts";
import { shortened } from "./text.ts";
import { isScope } from "./token.ts";

/** Brings a payload of one version to the next. */
type Upcast = (payload: never) => unknown;

/**
 * One message type: the single source of its type, validation, key, subject and queue. `Given` is the payload before its schema fills in
 * defaults.
 */
export type MessageDefinition<Payload = unknown, Type extends string = string, Given = NoInfer<Payload>> =
  | CommandDefinition<Payload, Type, Given>
  | EventDefinition<Payload, Type, Given>;

/** Something asked of one owner. */
export interface CommandDefinition<Payload = unknown, Type extends string = string, Given = NoInfer<Payload>>
  extends Definition<Payload, Type, Given> {
  readonly kind: "command";
  /** The business identity of the work. A workflow's command without a key refuses every payload here: its callers give the key. */
  readonly key: (payload: Payload) => string;
}

/** Something that happened. The step that emitted it is its identity. */
export interface EventDefinition<Payload = unknown, Type extends string = string, Given = NoInfer<Payload>>
  extends Definition<Payload, Type, Given> {
  readonly kind: "event";
  readonly key: undefined;
}

/** What commands and events have in common. */
interface Definition<Payload, Type extends string, Given> {
  readonly type: Type;
  /** The version `payload` describes. Older ones are upcast, newer ones refused. */
  readonly version: number;
  readonly payload: z.ZodType<Payload>;
  readonly subject: (payload: Payload) => string;
  readonly queue: QueueDefinition;
  /**
   * Who may say it from outside. A command's default is every token with the scope `enqueue`; an event without one is stated by nobody
   * outside.
   */
  readonly door: Door | undefined;
  /** `{ 1: (v1) => v2, … }`: how each older version becomes the next. */
  readonly upcasts: Readonly<Record<number, Upcast>>;
  /** A message of this type, checked against the schema, to be emitted or enqueued. Errors: `invalid_payload`. */
  from(payload: Given, options?: DraftOptions): Draft;
}

/**
 * What a message needs wherever somebody outside says it: as a command, in a batch, as a CloudEvent, by a schedule, in a corrected dead
 * letter.
 */
export interface Door {
  /** The scope that a token needs; null: none will do, and only the deployment's own code says it. */
  readonly scope: string | null;
  /** The route that is made for it: its method and path. */
  readonly route: string;
}

/** The door of a command that declares none. */
export const OPEN: Door = { scope: "enqueue", route: "POST /v1/commands" };

export interface DraftOptions {
  /** Seconds the queue holds the message back; at most 12 hours. */
  delaySeconds?: number;
}

/** A message before it has an envelope: what it says, not yet whose it is or what caused it. */
export interface Draft {
  readonly kind: Envelope["kind"];
  readonly type: string;
  readonly version: number;
  readonly payload: unknown;
  /** The business key; absent for events, which are identified by the step that emits them. */
  readonly key: string | undefined;
  readonly subject: string;
  readonly queue: QueueDefinition;
  readonly delaySeconds: number;
}

interface Options<Payload, Type extends string = string, Given = unknown> {
  type: Type;
  version?: number;
  payload: z.ZodType<Payload, Given>;
  subject: (payload: Payload) => string;
  queue: QueueDefinition;
  upcasts?: Record<number, Upcast>;
  door?: Door;
}

/** The payload that a schema takes. A schema that is annotated with its output alone takes that output. */
export type GivenAs<Payload, Given> = unknown extends Given ? Payload : Given;

/**
 * Declares a command: something asked of one owner. `key` names the work from its business identity, so that asking twice is asking once.
 * `door` keeps it from callers who may only enqueue.
 */
export function defineCommand<Payload, Type extends string, Given = unknown>(
  options: Options<Payload, Type, Given> & { key: (payload: Payload) => string },
): CommandDefinition<Payload, Type, GivenAs<Payload, Given>> {
  assertMessage("command", options);
  return define("command", { door: OPEN, ...options }) as never;
}

/** The command of a workflow that has no other: of the workflow's name. Its subject is its key, else that name. */
export function ownCommand<Payload, Type extends string, Given>(
  options: Pick<Options<Payload, Type, Given>, "type" | "payload" | "queue"> & { key?: ((payload: Payload) => string) | undefined },
): CommandDefinition<Payload, Type, GivenAs<Payload, Given>> {
  const { type, key = undefined } = options;
  return define("command", { door: OPEN, subject: key ?? (() => type), ...options }) as never;
}

/** Where events are stated that have no route of their own. */
const STATED_AT = "POST /v1/events";

/**
 * Declares an event: something that happened, told to whoever subscribed. Without a `door` only the deployment itself says it: `{ scope:
 * "enqueue" }` lets tokens with that scope state it at `POST /v1/events`, `{ scope: null, route }` keeps its words from operators too, who
 * replay it as it came.
 */
export function defineEvent<Payload, Type extends string, Given = unknown>(
  options: Omit<Options<Payload, Type, Given>, "door"> & { door?: Pick<Door, "scope"> & Partial<Door> },
): EventDefinition<Payload, Type, GivenAs<Payload, Given>> {
  assertMessage("event", options);
  const { door, ...rest } = options;
  return define("event", { ...rest, ...(door && { door: { route: STATED_AT, ...door } }) }) as never;
}

function define<Payload>(
  kind: Envelope["kind"],
  options: Options<Payload> & { key?: ((payload: Payload) => string) | undefined },
): MessageDefinition<Payload> {
  const definition = {
    kind,
    type: options.type,
    version: options.version ?? 1,
    payload: options.payload,
    key: options.key ? derived(options.type, "key", options.key) : kind === "command" ? () => keyless(options.type) : undefined,
    subject: derived(options.type, "subject", options.subject),
    queue: options.queue,
    door: options.door,
    upcasts: options.upcasts ?? {},
    from(raw: Payload, { delaySeconds = 0 }: DraftOptions = {}): Draft {
      const { kind, type, version, queue } = definition;
      const payload = decodePayload(definition, version, raw);
      const subject = definition.subject(payload);
      return {
        kind,
        type,
        version,
        payload,
        key: options.key && definition.key?.(payload),
        subject,
        queue,
        delaySeconds: checkedDelay(delaySeconds),
      };
    },
  } as MessageDefinition<Payload>;
  for (let version = 1; version < definition.version; version++) {
    assertDeclared(
      typeof definition.upcasts[version] === "function",
      `${definition.type} is at version ${definition.version}: say in \`upcasts\` how version ${version} becomes ${version + 1}.`,
    );
  }
  return definition;
}

function keyless(type: string): never {
  const message = `"${type}" makes no key of its input: give an idempotency key, so that the same request twice starts one instance`;
  throw new MillraceError("invalid_payload", `The command ${message}. Over HTTP that is the header Idempotency-Key.`, {
    issues: [{ path: "idempotency_key", message: "is missing" }],
  });
}

/** Refuses what no message could be of. It may come from code that no compiler has looked at. Errors: `config_invalid`. */
function assertMessage(kind: Envelope["kind"], options: object): void {
  const { type, version = 1, payload, key, subject, queue, door } = (options ?? {}) as Partial<Options<unknown> & { key: unknown }>;
  const named = `The ${kind} "${shortened(String(type), 60)}"`;
  assertDeclared(isDottedType(type), `${named} ${wrongInType(type)}: say it in dotted lower case with digits and _, such as "order.ship".`);
  assertDeclared(isWhole(version, [1, 1e6]), `${named} is at version ${version}: say a whole number, from 1.`);
  assertDeclared(isSchema(payload), `${named} has no payload: give it the schema of that, z.object({ … }), of zod 4.`);
  for (const [what, make] of Object.entries(kind === "command" ? { key, subject } : { subject })) {
    assertDeclared(isFunction(make), `${named} has no ${what}: give it the function that makes that of a payload.`);
  }
  assertDeclared(isQueueName(queue?.name), `${named} travels on no queue: give it what defineQueue({ name }) made.`);
  const scope: unknown = door === undefined ? null : (door as Door | null)?.scope;
  assertDeclared(
    scope === null || (typeof scope === "string" && isScope(scope)),
    `${named} has a door with the scope "${scope}", which no token can have: say a letter, then letters, digits and _ : . -, all lower case and at most 64; or null.`,
  );
}

/** What is wrong with a type that no message may have. */
function wrongInType(type: unknown): string {
  if (typeof type !== "string" || type === "") return "has no type";
  const [odd] = /[^a-z0-9_.]/u.exec(type) ?? [];
  if (odd !== undefined) return `has ${JSON.stringify(odd)} in its type`;
  if (type.length > MAX_TYPE_CHARACTERS) return `has a type of ${type.length} characters, beyond ${MAX_TYPE_CHARACTERS}`;
  return type.includes(".") ? "has a part in its type that begins with no letter" : "has no dot in its type";
}

/** Whole seconds that a queue takes. Errors: `invalid_payload` for what is none, or more than 12 hours. */
export function checkedDelay(seconds: number): number {
  if (typeof seconds === "number" && seconds >= 0 && seconds <= MAX_DELAY_SECONDS) return Math.ceil(seconds);
  const message = `must be 0 to ${MAX_DELAY_SECONDS} seconds (12 hours)`;
  throw new MillraceError("invalid_payload", `delaySeconds ${message}; it is ${shortened(String(seconds), 40)}.`, {
    issues: [{ path: "delay_seconds", message }],
  });
}

/**
 * Upcasts a payload to the definition's version and validates it. Errors: `invalid_envelope` for a newer version, `invalid_payload` with
 * the issues.
 */
export function decodePayload<Payload>(definition: MessageDefinition<Payload>, version: number, raw: unknown): Payload {
  if (version > definition.version) {
    throw new MillraceError(
      "invalid_envelope",
      `${definition.type} version ${version} is newer than this deployment knows (${definition.version}): deploy the consumer before the producer.`,
      { issues: [{ path: "schema_version", message: `must be at most ${definition.version}` }] },
    );
  }
  const payload = upcast(definition, version, raw);
  const parsed = checkedBySchema(definition, payload);
  if (parsed.success) return parsed.data;
  throw invalidPayload(definition.type, issuesIn(definition.payload, payload, parsed.error, ["payload"]));
}

/**
 * Refuses a payload with fields that its definition does not know: whoever wrote them would believe that they count. For those who ask
 * from outside; messages between deployments of two versions may carry what one of them does not know. Errors: `invalid_payload`, with what
 * was probably meant.
 */
export function assertKnownFields(definition: MessageDefinition, version: number, raw: unknown): void {
  const issues = unknownFields(definition.payload, upcast(definition, version, raw), ["payload"]);
  if (issues.length > 0) throw invalidPayload(definition.type, issues);
}

function checkedBySchema<Payload>({ type, payload }: MessageDefinition<Payload>, value: unknown) {
  try {
    return payload.safeParse(value);
  } catch (error) {
    throw invalidPayload(type, [{ path: "payload", message: `cannot be checked by its schema (${shortened(messageOf(error), 200)})` }]);
  }
}

/**
 * A key or a subject, of a payload that its author did not think of: the message is refused, not what comes with it. What is no text is the
 * definition's mistake, which no payload mends: `config_invalid`.
 */
function derived<Payload>(type: string, what: string, make: (payload: Payload) => string): (payload: Payload) => string {
  return (payload) => {
    let made: unknown;
    try {
      made = make(payload);
    } catch (error) {
      throw invalidPayload(type, [{ path: "payload", message: `has no ${what} (${shortened(messageOf(error), 200)})` }]);
    }
    const is = made instanceof Promise ? "a promise" : `of the type ${typeof made}`;
    assertDeclared(
      typeof made === "string",
      `The ${what} that the definition of ${type} makes of this payload is ${is}: let it answer a text, at once. The request is not at fault.`,
    );
    return made;
  };
}

function upcast(definition: Pick<MessageDefinition, "type" | "version" | "upcasts">, version: number, raw: unknown): unknown {
  let payload = raw;
  for (let from = version; from < definition.version; from++) {
    try {
      payload = definition.upcasts[from]?.(payload as never);
    } catch {
      throw invalidPayload(definition.type, [{ path: "payload", message: `is not a version ${from} payload` }]);
    }
  }
  return payload;
}

function invalidPayload(type: string, issues: Issue[]): MillraceError {
  return new MillraceError("invalid_payload", `The payload of ${type} is not valid: ${firstOf(issues)}.`, { issues });
}
