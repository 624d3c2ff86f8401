import { assertDeclared, isWhole } from "./declared.ts";
import type { Envelope } from "./envelope.ts";
import { digest } from "./ids.ts";
import { decodePayload, derived, type MessageDefinition } from "./message.ts";

/** The maximum number of instances of one key that are in progress at the same time. */
export interface Concurrency<Payload> {
  /** Derives the key from the payload. The tenant and the workflow are parts of the key. */
  readonly key: (payload: Payload) => string;
  /** The number of instances of one key that are in progress at the same time: 1 to 1000. */
  readonly limit: number;
}

// biome-ignore lint/suspicious/noExplicitAny: a workflow of any payload type has these fields
interface Flowing<Payload = any> {
  readonly name: string;
  readonly on: MessageDefinition<Payload>;
  readonly concurrency?: Concurrency<Payload>;
}

/** The flow control of a new instance, which the instance's row stores. */
export interface Flow {
  /** A digest of the key of the slots, because a key may contain personal data. */
  readonly slot: string;
  readonly limit: number;
}

const MOST_AT_ONCE = 1000;

/** The workflows with flow control, by name. The definition of a workflow calls `noteFlow`, because a row has only the workflow's name. */
const declared = new Map<string, Flowing>();

/** Checks and registers the flow control of a workflow. Errors: `config_invalid`. */
export function noteFlow(workflow: Flowing): void {
  const { name, concurrency } = workflow;
  if (concurrency === undefined) return void declared.delete(name);
  assertDeclared(
    typeof concurrency?.key === "function",
    `\`concurrency\` of "${name}" must have \`key\`: a function from the input to a string.`,
  );
  assertDeclared(
    isWhole(concurrency.limit, [1, MOST_AT_ONCE]),
    `\`concurrency\` of "${name}" must have \`limit\`: a whole number from 1 to ${MOST_AT_ONCE}.`,
  );
  declared.set(name, workflow);
}

/** True if the workflow declares flow control. */
export function hasFlow(workflow: string): boolean {
  return declared.has(workflow);
}

/**
 * The flow control of a message's instance; undefined if the workflow declares none. `payload` is the decoded payload. If it is absent, an
 * inline payload is decoded. A payload in R2 must be given. Errors: `invalid_payload` for a payload without a key.
 */
export function flowOf(workflow: string, envelope: Envelope, payload?: unknown): Flow | undefined {
  const definition = declared.get(workflow);
  if (definition?.concurrency === undefined) return undefined;
  const { on, concurrency } = definition;
  const given =
    payload ?? (envelope.payload_ref === undefined ? decodePayload(on, envelope.schema_version, envelope.payload_inline) : undefined);
  if (given === undefined) return undefined;
  const key = derived(on.type, "concurrency key", concurrency.key)(given);
  return { slot: digest("slot", envelope.tenant_id, workflow, key), limit: concurrency.limit };
}
