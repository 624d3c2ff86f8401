import type * as z from "zod";
import { assertDeclared, isFunction, isSchema, isWhole } from "./declared.ts";
import type { Duration } from "./duration.ts";
import { type Envelope, firstOf, isDottedType, issuesIn, MAX_TYPE_CHARACTERS } from "./envelope.ts";
import { type Issue, MillraceError, messageOf } from "./errors.ts";
import { unknownFields } from "./known-fields.ts";
import { isQueueName, MAX_DELAY_SECONDS, type QueueDefinition } from "./queue.ts";
import { shortened } from "./text.ts";
import { isScope } from "./token.ts";

/** Converts a payload of one version to the next version. */
type Upcast = (payload: never) => unknown;

/**
 * One message type: the single definition of its type, validation, key, subject and queue. `Given` is the type of the payload before the
 * schema fills in defaults.
 */
export type MessageDefinition<Payload = unknown, Type extends string = string, Given = NoInfer<Payload>> =
  | CommandDefinition<Payload, Type, Given>
  | EventDefinition<Payload, Type, Given>;

/** A request for work. Each command has exactly one receiver. */
export interface CommandDefinition<Payload = unknown, Type extends string = string, Given = NoInfer<Payload>>
  extends Definition<Payload, Type, Given> {
  readonly kind: "command";
  /**
   * Derives the idempotency key from the payload. For a workflow's command without a key, the function refuses every payload, because
   * callers must give the key.
   */
  readonly key: (payload: Payload) => string;
  /** The tags of the command's instances, such as "customer:acme". */
  readonly tags?: ((payload: Payload) => readonly string[]) | undefined;
  /** The correlation id of a request that has no correlation id; default: a new id. */
  readonly correlation?: ((payload: Payload) => string) | undefined;
}

/** A fact that has happened. An event is identified by the step that emitted it. */
export interface EventDefinition<Payload = unknown, Type extends string = string, Given = NoInfer<Payload>>
  extends Definition<Payload, Type, Given> {
  readonly kind: "event";
  readonly key: undefined;
  readonly tags?: undefined;
  readonly correlation?: undefined;
}

interface Definition<Payload, Type extends string, Given> {
  readonly type: Type;
  /** The version that `payload` describes. Payloads of older versions are upcast, and payloads of newer versions are refused. */
  readonly version: number;
  readonly payload: z.ZodType<Payload>;
  readonly subject: (payload: Payload) => string;
  readonly queue: QueueDefinition;
  /**
   * The access rule for messages from outside. A command without a rule accepts every token with the scope `enqueue`. An event without a
   * rule accepts no token.
   */
  readonly access: Access | undefined;
  /** `{ 1: (v1) => v2, … }`: converts each older version to the next. */
  readonly upcasts: Readonly<Record<number, Upcast>>;
  /** Creates a message of this type to emit or enqueue, and validates its payload. Errors: `invalid_payload`. */
  from(payload: Given, options?: DraftOptions): Draft;
}

/** The access rule of a message from outside: as a command, in a batch, as a CloudEvent, by a schedule, or in a corrected dead letter. */
export interface Access {
  /** The required scope. Null means that no token has access, but only the deployment's own code. */
  readonly scope: string | null;
  /** The dedicated route: its method and path. */
  readonly route: string;
}

/** The access rule of a command that declares none. */
export const OPEN: Access = { scope: "enqueue", route: "POST /v1/commands" };

export interface DraftOptions {
  /** Delivery delay of the queue in seconds; at most 12 hours. */
  delaySeconds?: number;
  /** Tags in addition to the tags of the definition. An instance has at most 10 tags, each of at most 64 characters. */
  tags?: readonly string[] | undefined;
}

/** A message before its envelope is created, and therefore without tenant, source and cause. */
export interface Draft {
  readonly kind: Envelope["kind"];
  readonly type: string;
  readonly version: number;
  readonly payload: unknown;
  /** The idempotency key of the message; undefined for events, which are identified by the step that emits them. */
  readonly key: string | undefined;
  readonly subject: string;
  readonly queue: QueueDefinition;
  readonly delaySeconds: number;
  readonly tags?: readonly string[];
  /** The workflow of the child that the sending instance starts. Only the engine sets this field. */
  readonly child?: Performer;
}

/** The fields of a workflow that the acceptance of its message needs. */
export interface Performer {
  readonly name: string;
  readonly version?: number | undefined;
  readonly deadline?: Duration | undefined;
}

interface Options<Payload, Type extends string = string, Given = unknown> {
  type: Type;
  version?: number;
  payload: z.ZodType<Payload, Given>;
  subject: (payload: Payload) => string;
  queue: QueueDefinition;
  upcasts?: Record<number, Upcast>;
  access?: Access;
}

/** The input type of a schema. For a schema that is annotated only with its output type, this is the output type. */
export type GivenAs<Payload, Given> = unknown extends Given ? Payload : Given;

/**
 * Declares a command, a request for work that has exactly one receiver. `key` derives the idempotency key from the payload, so that a
 * repeated request is the same command. `correlation` derives the correlation id of a request that has no correlation id, and `tags`
 * derives the tags of the instance. `access` restricts access beyond the scope `enqueue`.
 */
export function defineCommand<Payload, Type extends string, Given = unknown>(
  options: Options<Payload, Type, Given> & {
    key: (payload: Payload) => string;
    correlation?: (payload: Payload) => string;
    tags?: (payload: Payload) => readonly string[];
  },
): CommandDefinition<Payload, Type, GivenAs<Payload, Given>> {
  assertMessage("command", options);
  return define("command", { access: OPEN, ...options }) as never;
}

/**
 * The command of a workflow with an `input`, named like the workflow. The command's subject is its key, or, if the command has no key, the
 * workflow's name.
 */
export function ownCommand<Payload, Type extends string, Given>(
  options: Pick<Options<Payload, Type, Given>, "type" | "payload" | "queue"> & {
    key?: ((payload: Payload) => string) | undefined;
    tags?: ((payload: Payload) => readonly string[]) | undefined;
  },
): CommandDefinition<Payload, Type, GivenAs<Payload, Given>> {
  const { type, key = undefined } = options;
  return define("command", { access: OPEN, subject: key ?? (() => type), ...options }) as never;
}

/** The route for events whose definition names no route. */
const STATED_AT = "POST /v1/events";

/**
 * Declares an event: a fact that has happened, for all subscribers. Without an `access` only the deployment itself publishes the event.
 * `{ scope: "enqueue" }` lets tokens with that scope publish the event at `POST /v1/events`. `{ scope: null, route }` also prevents
 * operators from editing the event in a replay.
 */
export function defineEvent<Payload, Type extends string, Given = unknown>(
  options: Omit<Options<Payload, Type, Given>, "access"> & { access?: Pick<Access, "scope"> & Partial<Access> },
): EventDefinition<Payload, Type, GivenAs<Payload, Given>> {
  assertMessage("event", options);
  const { access, ...rest } = options;
  return define("event", { ...rest, ...(access && { access: { route: STATED_AT, ...access } }) }) as never;
}

function define<Payload>(
  kind: Envelope["kind"],
  options: Options<Payload> & {
    key?: ((payload: Payload) => string) | undefined;
    correlation?: (payload: Payload) => string;
    tags?: ((payload: Payload) => readonly string[]) | undefined;
  },
): MessageDefinition<Payload> {
  const definition = {
    kind,
    type: options.type,
    version: options.version ?? 1,
    payload: options.payload,
    key: options.key ? derived(options.type, "key", options.key) : kind === "command" ? () => keyless(options.type) : undefined,
    correlation: options.correlation && derived(options.type, "correlation id", options.correlation),
    tags: options.tags && derived(options.type, "tags", options.tags),
    subject: derived(options.type, "subject", options.subject),
    queue: options.queue,
    access: options.access,
    upcasts: options.upcasts ?? {},
    from(raw: Payload, { delaySeconds = 0, tags = [] }: DraftOptions = {}): Draft {
      const { kind, type, version, queue } = definition;
      const payload = decodePayload(definition, version, raw);
      // The default subject is the key, so an error about the key is thrown first.
      const key = options.key && definition.key?.(payload);
      const subject = definition.subject(payload);
      return {
        kind,
        type,
        version,
        payload,
        key,
        subject,
        queue,
        delaySeconds: checkedDelay(delaySeconds),
        tags: [...tags, ...(definition.tags?.(payload) ?? [])],
      };
    },
  } as MessageDefinition<Payload>;
  for (let version = 1; version < definition.version; version++) {
    assertDeclared(
      typeof definition.upcasts[version] === "function",
      `${definition.type} is at version ${definition.version}: add the conversion from version ${version} to ${version + 1} to \`upcasts\`.`,
    );
  }
  return definition;
}

function keyless(type: string): never {
  const message = `"${type}" has no key function: pass an idempotency key, so that a repeated request starts one instance`;
  throw new MillraceError("invalid_payload", `The command ${message}. Over HTTP that is the header Idempotency-Key.`, {
    issues: [{ path: "idempotency_key", message: "is missing" }],
  });
}

/** Refuses an invalid declaration, possibly from JavaScript that no compiler has checked. Errors: `config_invalid`. */
function assertMessage(kind: Envelope["kind"], options: object): void {
  const { type, version = 1, payload, key, subject, queue, access } = (options ?? {}) as Partial<Options<unknown> & { key: unknown }>;
  const named = `The ${kind} "${shortened(String(type), 60)}"`;
  assertDeclared(isDottedType(type), `${named} ${wrongInType(type)}: use dotted lower case with digits and _, such as "order.ship".`);
  assertDeclared(isWhole(version, [1, 1e6]), `${named} is at version ${version}: use a whole number, from 1.`);
  assertDeclared(isSchema(payload), `${named} has no payload: pass a schema of zod 4, such as z.object({ … }).`);
  for (const [what, make] of Object.entries(kind === "command" ? { key, subject } : { subject })) {
    assertDeclared(isFunction(make), `${named} has no ${what}: pass a function from the payload to the ${what}.`);
  }
  assertDeclared(isQueueName(queue?.name), `${named} has no queue: pass the result of defineQueue({ name }).`);
  const scope: unknown = access === undefined ? null : (access as Access | null)?.scope;
  assertDeclared(
    scope === null || (typeof scope === "string" && isScope(scope)),
    `${named} has an access with the scope "${scope}", which no token can have: use a letter, then letters, digits and _ : . -, all lower case and at most 64; or null.`,
  );
}

/** Describes the problem of an invalid message type. */
function wrongInType(type: unknown): string {
  if (typeof type !== "string" || type === "") return "has no type";
  const [odd] = /[^a-z0-9_.]/u.exec(type) ?? [];
  if (odd !== undefined) return `has ${JSON.stringify(odd)} in its type`;
  if (type.length > MAX_TYPE_CHARACTERS) return `has a type of ${type.length} characters, beyond ${MAX_TYPE_CHARACTERS}`;
  return type.includes(".") ? "has a part in its type that begins with no letter" : "has no dot in its type";
}

/** Validates a delay in whole seconds. Errors: `invalid_payload` for an invalid number, or more than `most`, by default 12 hours. */
export function checkedDelay(seconds: number, most: number = MAX_DELAY_SECONDS): number {
  if (typeof seconds === "number" && seconds >= 0 && seconds <= most) return Math.ceil(seconds);
  const message = `must be 0 to ${most} seconds (${most === MAX_DELAY_SECONDS ? "12 hours" : "365 days"})`;
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

/** Creates a message from a payload of a given version, and validates the payload once. Errors: as `decodePayload`. */
export function draftOf<Payload>(definition: MessageDefinition<Payload>, version: number, raw: unknown, options?: DraftOptions): Draft {
  return definition.from((version === definition.version ? raw : decodePayload(definition, version, raw)) as Payload, options);
}

/**
 * Refuses a payload with unknown fields, because the author of the payload expects an effect of each field. Call this function only for
 * requests from outside: a message between deployments of two versions may have fields that one version does not know. Errors:
 * `invalid_payload`, with suggestions.
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
 * Derives a key or a subject. When the function throws, the payload is refused with `invalid_payload`. A result that is no string is a
 * mistake in the definition, which no payload can fix: `config_invalid`.
 */
/** A function of a definition that derives a text or a list from the payload. Errors: `invalid_payload` if the function throws. */
export function derived<Payload, Made extends string | readonly string[]>(
  type: string,
  what: string,
  make: (payload: Payload) => Made,
): (payload: Payload) => Made {
  return (payload) => {
    let made: unknown;
    try {
      made = make(payload);
    } catch (error) {
      throw invalidPayload(type, [{ path: "payload", message: `has no ${what} (${shortened(messageOf(error), 200)})` }]);
    }
    const isList = what === "tags";
    const is = made instanceof Promise ? "a promise" : `a value of the type ${typeof made}`;
    assertDeclared(
      isList ? Array.isArray(made) : typeof made === "string",
      `The definition of ${type} must return the ${what} as a ${isList ? "list" : "string"}, not ${is}. Correct the definition; the request is valid.`,
    );
    return made as Made;
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
