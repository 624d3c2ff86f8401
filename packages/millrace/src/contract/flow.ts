import { assertDeclared, isWhole } from "./declared.ts";
import { YEAR_MS } from "./duration.ts";
import type { Envelope } from "./envelope.ts";
import { digest } from "./ids.ts";
import { decodePayload, derived, type MessageDefinition } from "./message.ts";

/** Derives a key from the payload. The tenant and the workflow are parts of the key. */
interface Keyed<Payload> {
  readonly key: (payload: Payload) => string;
}

/** The flow control of a workflow. Each option has a key of its own. */
export interface FlowControl<Payload> {
  /**
   * Limits the instances of one key and tenant that are in progress at the same time, such as
   * `{ key: ({ customer }) => customer, limit: 2 }`. Further instances wait in the order of their acceptance. An instance occupies its slot
   * from its start to its end, also while it sleeps, waits or is paused. `limit`: 1 to 1000. Default: no limit.
   */
  readonly concurrency?: Keyed<Payload> & { readonly limit: number };
  /**
   * Starts only the last command of a key: each command starts after `periodMs`, unless a later command of the key replaces it. A replaced
   * instance is `skipped`, and its error names the later one. A command with a delay of its own is not debounced. Default: none.
   */
  readonly debounce?: Keyed<Payload> & { readonly periodMs: number };
  /**
   * Starts at most `limit` instances of a key in each period of `periodMs`. Further instances are delayed in the order of their acceptance.
   * A command with a delay of its own is not throttled. Not together with `debounce`. Default: none.
   */
  readonly throttle?: Keyed<Payload> & { readonly limit: number; readonly periodMs: number };
}

// biome-ignore lint/suspicious/noExplicitAny: a workflow of any payload type has these fields
interface Flowing<Payload = any> extends FlowControl<Payload> {
  readonly name: string;
  readonly on: MessageDefinition<Payload>;
}

/** The flow control of a new instance, which the instance's row stores. Each key is a digest, because a key may contain personal data. */
export interface Flow {
  readonly slot?: string;
  readonly limit?: number;
  readonly debounce?: string;
  readonly throttle?: string;
  /** The number of starts in a period of `ms` of `throttle`. */
  readonly starts?: number;
  readonly ms?: number;
}

const MOST_AT_ONCE = 1000;

/** The workflows with flow control, by name. The definition of a workflow calls `noteFlow`, because a row has only the workflow's name. */
const declared = new Map<string, Flowing>();

/** Checks and registers the flow control of a workflow. Errors: `config_invalid`. */
export function noteFlow(workflow: Flowing): void {
  const { name, concurrency, debounce, throttle } = workflow;
  for (const [option, given] of Object.entries({ concurrency, debounce, throttle })) {
    if (given === undefined) continue;
    const said = `\`${option}\` of "${name}" must have`;
    assertDeclared(typeof given?.key === "function", `${said} \`key\`: a function from the input to a string.`);
    const { limit, periodMs } = given as { limit?: number; periodMs?: number };
    assertDeclared(
      option === "debounce" || isWhole(limit, [1, MOST_AT_ONCE]),
      `${said} \`limit\`: a whole number from 1 to ${MOST_AT_ONCE}.`,
    );
    assertDeclared(
      option === "concurrency" || isWhole(periodMs, [1, YEAR_MS]),
      `${said} \`periodMs\`: whole milliseconds, at most 365 days.`,
    );
  }
  assertDeclared(
    debounce === undefined || throttle === undefined,
    `"${name}" has \`debounce\` and \`throttle\`: remove one, because both set the start time.`,
  );
  if (concurrency ?? debounce ?? throttle) declared.set(name, workflow);
  else declared.delete(name);
}

/** True if the workflow declares flow control. */
export function hasFlow(workflow: string): boolean {
  return declared.has(workflow);
}

interface Arriving {
  readonly envelope: Envelope;
  /** The decoded payload. If it is absent, an inline payload is decoded. A payload in R2 must be given. */
  readonly payload?: unknown;
  readonly delaySeconds?: number;
}

/**
 * The flow control of a message's instance; undefined if the workflow declares none. Errors: `invalid_payload` for a payload without a key.
 */
export function flowOf(workflow: string, { envelope, payload, delaySeconds = 0 }: Arriving): Flow | undefined {
  const definition = declared.get(workflow);
  if (definition === undefined) return undefined;
  const { on, concurrency, debounce, throttle } = definition;
  const given =
    payload ?? (envelope.payload_ref === undefined ? decodePayload(on, envelope.schema_version, envelope.payload_inline) : undefined);
  if (given === undefined) return undefined;
  const keyOf = (option: string, { key }: Keyed<unknown>) =>
    digest(option, envelope.tenant_id, workflow, derived(on.type, `${option} key`, key)(given));
  const flow: Flow = {
    ...(concurrency && { slot: keyOf("concurrency", concurrency), limit: concurrency.limit }),
    ...(delaySeconds === 0 && debounce && { debounce: keyOf("debounce", debounce), ms: debounce.periodMs }),
    ...(delaySeconds === 0 && throttle && { throttle: keyOf("throttle", throttle), starts: throttle.limit, ms: throttle.periodMs }),
  };
  return Object.keys(flow).length === 0 ? undefined : flow;
}
