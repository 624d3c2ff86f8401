import * as z from "zod";
import { isCallable, MAX_ADDRESS_CHARACTERS } from "./address-guard.ts";
import { isVisible } from "./chosen-name.ts";
import { type Issue, MillraceError } from "./errors.ts";
import { dotted, fieldsAt, MAX_ISSUES, unknownField, unknownFields } from "./known-fields.ts";
import { byteLength } from "./limits.ts";
import { shortened } from "./text.ts";

/** R2's limit for object names is 1,024 bytes. */
const MAX_REF_BYTES = 1024 + "r2://".length;

/** Maximum number of instances in the chain that led to a message. */
const MAX_PATH = 100;

/** A name chosen by a caller: bounded, well-formed, and without NUL, because SQL functions read a string only up to its first NUL. */
const name = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((text) => !text.includes("\0"), "must not contain the character NUL")
    .refine((text) => text.isWellFormed(), "must not contain half of a surrogate pair: it was cut within a character");

export const subjectSchema = name(500);

export const MAX_TAGS = 10;
const MAX_TAG_CHARACTERS = 64;

/** The tags of an instance. Each tag is displayed unchanged, so that two different tags never look the same. */
export const tagsSchema = z
  .array(
    z
      .string()
      .min(1)
      .max(MAX_TAG_CHARACTERS)
      .refine((tag) => isVisible(tag) && !/[\p{C}\p{Zl}\p{Zp}]/u.test(tag), "must have visible characters only"),
  )
  .max(MAX_TAGS);

export const MAX_TYPE_CHARACTERS = 100;

const DOTTED = /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/;

/** The name of a workflow, which is also the type of its command. */
const WORKFLOW_NAME = /^[a-z][a-z0-9-]{0,62}$/;

export function isWorkflowName(name: unknown): name is string {
  return typeof name === "string" && WORKFLOW_NAME.test(name);
}

/** The type of a message that is declared by `defineCommand` or `defineEvent`. */
export function isDottedType(type: unknown): type is string {
  return typeof type === "string" && type.length <= MAX_TYPE_CHARACTERS && DOTTED.test(type);
}

export const messageTypeSchema = z
  .string()
  .max(MAX_TYPE_CHARACTERS)
  .refine(
    (type) => DOTTED.test(type) || WORKFLOW_NAME.test(type),
    "must be dotted lower case, such as `content.publish`, or a workflow's name",
  );

/** The fields of every message. See docs/messages.md for each field's rule. */
export const envelopeSchema = z
  .strictObject({
    schema_version: z.int().min(1),
    message_type: messageTypeSchema,
    kind: z.enum(["command", "event"]),
    source: name(200),
    correlation_id: name(200),
    causation_id: name(300),
    idempotency_key: name(500),
    subject: subjectSchema,
    tenant_id: z
      .string()
      .max(64)
      .regex(/^[a-z0-9][a-z0-9_-]*$/, "must be lower case letters, digits, - or _"),
    created_at: z.iso.datetime(),
    sequence: z.int().min(0).optional(),
    payload_inline: z.unknown().optional(),
    payload_ref: z
      .string()
      .max(500)
      .regex(/^r2:\/\/.+/, "must be an R2 reference, `r2://…`")
      .refine((ref) => byteLength(ref) <= MAX_REF_BYTES, "must name an object of R2: at most 1,024 bytes after `r2://`")
      .optional(),
    /** The engine's proof that it has committed the message's row; producers omit this field. */
    acceptance: z.string().max(64).optional(),
    /** `sender`: the event's sender stores the event until the sender gets a confirmation; the engine's outbox has no row for the event. */
    outbox: z.literal("sender").optional(),
    /** The time after which a command's instance is overdue. */
    must_end_by: z.iso.datetime().optional(),
    /** The address to call each time a run of a command's instance ends. */
    callback_url: z
      .string()
      .max(MAX_ADDRESS_CHARACTERS)
      .refine(isCallable, "must be an address that begins with https://, without a user or a password")
      .optional(),
    /** Strings by which instances are found, such as "customer:acme". */
    tags: tagsSchema.optional(),
    /** The action of an operator's replay, set by the engine. The action's id distinguishes the replayed message from older copies. */
    replay: z.string().max(64).optional(),
    /**
     * The workflows of the chain of instances that led to the message, oldest instance first. The engine sets this field; producers omit
     * it.
     */
    path: z.array(name(63)).max(MAX_PATH).optional(),
    /** The parent of the command's instance, which is a child. The engine sets this field; producers omit it. */
    parent: z
      .string()
      .regex(/^[0-9a-f]{32}$/)
      .optional(),
    traceparent: z.string().regex(/^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/, "must be a W3C traceparent"),
    tracestate: z.string().max(512).optional(),
  })
  .refine((e) => (e.payload_inline === undefined) !== (e.payload_ref === undefined), {
    path: ["payload_inline"],
    message: "exactly one of payload_inline and payload_ref must be present",
  })
  .refine((e) => e.kind === "command" || (e.must_end_by ?? e.callback_url) === undefined, {
    path: ["kind"],
    message: "must be `command` with must_end_by or callback_url: an event has no single end",
  });

export type Envelope = z.infer<typeof envelopeSchema>;

/** Validates an envelope. Errors: `invalid_envelope` with one issue per invalid field. */
export function parseEnvelope(value: unknown): Envelope {
  const parsed = envelopeSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = issuesOf(parsed.error);
  throw new MillraceError("invalid_envelope", `The message is not a valid envelope: ${firstOf(issues)}. Correct it and send it again.`, {
    issues,
  });
}

const MAX_ISSUE_CHARACTERS = 300;

/**
 * Zod's issues in the API's form: a dotted path for each invalid field, and a message with the fix. At most 50 issues, with at most 300
 * characters in each string.
 */
export function issuesOf(error: z.core.$ZodError, prefix: string[] = []): Issue[] {
  return bounded(flattened(error, prefix, () => []));
}

/**
 * The issues of a value that its schema refuses, in the API's form. Unknown fields, which the schema would drop, are issues too, each with
 * a suggestion.
 */
export function issuesIn(schema: z.ZodType, value: unknown, error: z.core.$ZodError, prefix: string[] = []): Issue[] {
  const issues = flattened(error, prefix, (path) => fieldsAt(schema, path));
  const told = new Set(issues.map(({ path }) => path));
  return bounded([...issues, ...unknownFields(schema, value, prefix).filter(({ path }) => !told.has(path))]);
}

function flattened(error: z.core.$ZodError, prefix: string[], fieldsAt: (path: PropertyKey[]) => string[]): Issue[] {
  return error.issues.slice(0, MAX_ISSUES).flatMap((issue): Issue[] => {
    const path = [...prefix, ...issue.path.map(String)];
    if (issue.code === "unrecognized_keys") {
      const known = fieldsAt(issue.path);
      return issue.keys.slice(0, MAX_ISSUES).map((key) => unknownField([...path, key], known));
    }
    if (issue.code === "invalid_union" && "options" in issue && issue.options) {
      return [{ path: dotted(path), message: `must be ${issue.options.map((option) => `"${String(option)}"`).join(" or ")}` }];
    }
    const missing = issue.message.endsWith("received undefined");
    return [{ path: dotted(path), message: missing ? "is missing: add it" : plainer(issue.message) }];
  });
}

function bounded(issues: readonly Issue[]): Issue[] {
  const cut = (text: string) => shortened(text, MAX_ISSUE_CHARACTERS);
  return issues.slice(0, MAX_ISSUES).map(({ path, message }) => ({ path: cut(path), message: cut(message) }));
}

/** The first issue of a refused value as text, with the number of further issues. */
export function firstOf(issues: readonly Issue[], root = "it"): string {
  const [first, ...others] = issues;
  if (!first) return `${root} does not fit`;
  const more = issues.length >= MAX_ISSUES ? `at least ${others.length}` : others.length;
  return `${first.path || root} ${first.message}${others.length > 0 ? ` (and ${more} more under \`issues\`)` : ""}`;
}

/** Zod's own messages in plainer words. Custom messages of a schema remain unchanged. */
function plainer(message: string): string {
  const [pattern, words] = PLAINER.find(([said]) => said.test(message)) ?? [];
  return pattern && words ? message.replace(pattern, words).replaceAll('"|"', '" or "') : message;
}

const PLAINER = [
  [/^Invalid ISO datetime$/, "must be a time in UTC, such as 2026-10-01T09:30:00Z"],
  [/^Invalid ISO date$/, "must be a day, such as 2026-10-01"],
  [/^Invalid input: expected int, received number$/, "must be a whole number"],
  [/^Invalid input: expected (\w+), received (\w+)$/, "must be of type $1, not $2"],
  [/^Invalid input: expected ("[^,]*"|\d+|true|false|null)$/, "must be $1"],
  [/^Invalid input(?:: more than one option matched)?$/, "has an unsupported type"],
  [/^Invalid string: must match pattern (.+)$/, "must match the pattern $1"],
  [/^Invalid (?:string|number): must (.+)$/, "must $1"],
  [/^Invalid (?:key|value) in (\w+)$/, "has an unsupported key or value"],
  [/^Invalid option: expected one of (.+)$/, "must be $1"],
  [/^Too big: expected (?:number|int) to be <=(.+)$/, "must be at most $1"],
  [/^Too small: expected (?:number|int) to be >=(.+)$/, "must be at least $1"],
  [/^Too small: expected \w+ to have >=1 (?:characters|items)$/, "must not be empty"],
  [/^Too small: expected \w+ to have >=(.+)$/, "must have at least $1"],
  [/^Too big: expected \w+ to have <=(.+)$/, "must have at most $1"],
  [/^Too \w+: expected (?:number|int) to be >(.+)$/, "must be more than $1"],
  [/^Too \w+: expected (?:number|int) to be <(.+)$/, "must be less than $1"],
  [/^Too \w+: expected \w+ to have exactly (.+)$/, "must have exactly $1"],
  [/^Invalid (\w.*)$/, "is not a valid $1"],
] as const;

/** The default of the option `maxHops` of the catalog. */
const MAX_HOPS = 3;

/** Validates the option `maxHops` of a catalog. Errors: `config_invalid`. */
export function checkedHops(maxHops = MAX_HOPS): number {
  if (Number.isInteger(maxHops) && maxHops >= 1 && maxHops < MAX_PATH) return maxHops;
  throw new MillraceError("config_invalid", `The catalog has maxHops: ${maxHops}. Use 1 to ${MAX_PATH - 1} instances after the first.`);
}

/**
 * Refuses to start an instance at the end of a chain that is longer than the catalog allows, or circular. Errors: `too_many_hops`, which
 * lists the workflows of the chain.
 */
export function assertFewHops(
  { maxHops }: { maxHops: number },
  workflow: string,
  { message_type, path = [] }: Pick<Envelope, "message_type" | "path">,
): void {
  if (path.length <= maxHops) return;
  const way = [...path, workflow];
  const isCircle = new Set(way).size < way.length;
  throw new MillraceError(
    "too_many_hops",
    `"${message_type}" is at the end of a chain of ${path.length} instances, and maxHops is ${maxHops}: ${way.join(" → ")}. ` +
      (isCircle
        ? "The chain is circular: end it in the code, or increase maxHops in the catalog; then replay this message."
        : "Make the chain shorter, or increase maxHops in the catalog; then replay this message."),
    { terminal: true },
  );
}

const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/;

export function isTenant(text: string): boolean {
  return TENANT.test(text);
}

/** Validates a tenant. Errors: `invalid_payload` for an invalid tenant, because no token could read its data. */
export function checkedTenant(tenant: string): string {
  if (isTenant(tenant)) return tenant;
  const message = `"${shortened(tenant, 80)}" is not a tenant: use up to 64 lower case letters, digits, - or _`;
  throw new MillraceError("invalid_payload", `${message}. Nothing was stored.`, { issues: [{ path: "tenant", message }] });
}
