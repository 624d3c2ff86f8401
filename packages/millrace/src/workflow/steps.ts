import { workflowBinding } from "../contract/bindings.ts";
import { assertDeclared } from "../contract/declared.ts";
import type { Duration } from "../contract/duration.ts";
import { assertFewHops, parseEnvelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { hidingIn } from "../contract/hide.ts";
import { attemptToken, digest } from "../contract/ids.ts";
import type { EventDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import { assertStepMode, CHILD_PREFIX, itemOf, type StepMode } from "../contract/step-names.ts";
import { reportingOf } from "../guard/call.ts";
import { packOutput } from "../guard/output.ts";
import {
  assertMakes,
  assertUndo,
  assertWayBack,
  type Commit,
  type Reporting,
  type Retries,
  type StepDefinition,
  type Stored,
  type Writes,
} from "../guard/step.ts";
import { advise } from "../replay/advice.ts";
import { goesInline } from "../replay/inline.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { Approval } from "../signals/approval.ts";
import { CLAIMED } from "../store/inbox/classes.ts";
import type { ApprovalRequest } from "./approve.ts";
import { type ChildWorkflow, isChildRecord } from "./child.ts";
import type { Platform } from "./platform.ts";
import { EndOfRecord, type StepBehaviour } from "./step-behaviour.ts";

/**
 * A step name that is a string literal. A computed name could differ in the next replay, and the step would run twice. For a computed name,
 * the type is a literal type whose text the compiler shows as the error message.
 */
export type Literal<Name extends string> = string extends Name
  ? NoLiteral
  : Record<never, never> extends Record<Name, 1>
    ? NoLiteral
    : Name;

type NoLiteral = "A step name is a literal; put data into { key }";

export interface StepOptions {
  /**
   * Distinguishes parallel or repeated calls that have the same step name. Derive the key from the data, such as an item's id. Never derive
   * the key from a counter or the time.
   */
  key?: string;
  retries?: Retries;
  timeout?: Duration;
}

/** Overrides the workflow's `steps` for one step. */
interface ModeOption {
  steps?: StepMode;
}

/**
 * The steps that a workflow's code can call. Each step is one platform step, which the platform bills once and stores once. An inline step
 * becomes a platform step only if it is retried.
 */
export class Steps {
  readonly #replay: Replay;
  readonly #platform: Platform;
  readonly #behaviour: StepBehaviour;
  readonly #mode: StepMode;
  readonly #items: readonly string[];
  readonly #maxHops: number;

  /** The engine calls the constructor for each replay. `items` contains the item keys of the enclosing calls of `map`. @internal */
  constructor(
    replay: Replay,
    platform: Platform,
    behaviour: StepBehaviour,
    mode: StepMode,
    maxHops: number,
    items: readonly string[] = [],
  ) {
    this.#maxHops = maxHops;
    this.#replay = replay;
    this.#platform = platform;
    this.#behaviour = behaviour;
    this.#mode = mode;
    this.#items = items;
  }

  /**
   * Adds tags to the instance, by which lists find the instance. An instance has at most 10 tags. The next record stores the tags, and a
   * repeated tag changes nothing. Errors: `config_invalid` for an invalid tag.
   */
  tag(...tags: string[]): void {
    this.#replay.tag(tags);
  }

  /** Reads data in a step. A read may run more than once, has no guarantee and writes no row. */
  async read<Name extends string, Output>(
    name: Literal<Name>,
    read: (call: Reporting) => Stored<Output> | Promise<Stored<Output>>,
    options: StepOptions = {},
  ): Promise<Output> {
    const step = { ...this.#call(name, options.key), reads: true };
    const { env, envelope, instanceId } = this.#replay;
    const folder = `${envelope.tenant_id}/${instanceId}`;
    // An abandoned attempt at a read may still write its output, so each attempt has its own path.
    const path = () => `${folder}/${digest("read", step.label, attemptToken())}`;
    return this.#behaviour.read(step, options, async (nth) => {
      const output = await read(reportingOf(this.#replay, step, nth));
      await this.#replay.storeTags();
      return { ...(await packOutput(env.PAYLOADS, path, output)), reads: true };
    });
  }

  /** Runs a guarded effect with the guarantee of its class. `record` returns the rows and messages to write with the effect's outcome. */
  effect<Name extends string, Input, Output>(
    name: Literal<Name>,
    definition: StepDefinition<Input, Output>,
    input: NoInfer<Input>,
    options: {
      key?: string;
      record?: (output: NoInfer<Output>) => Writes;
      /** Returns rows and messages that are written when the effect is undone, in the same write as the undo. */
      undo?: (output: NoInfer<Output>) => Writes;
    } & ModeOption = {},
  ): Promise<Output> {
    const { key, undo, record = () => ({}), steps } = options;
    assertMakes(name, { undo, record });
    assertUndo(definition);
    assertWayBack(definition, undo !== undefined);
    const undoable = definition.undo !== undefined || undo !== undefined;
    const inline = this.#isInline(name, steps, { class: definition.effect, undoable });
    const step = { ...this.#call(name, key, undoable), guarded: true, acts: !CLAIMED.has(definition.effect), inline };
    return this.#guarded(step, this.#behaviour.effect(step, { definition, input, record, undo }));
  }

  /**
   * Writes the app's rows and sends messages, exactly once, in one atomic write. `make` may read data before `make` returns the writes.
   * Every attempt calls `make` again, so other actions in `make` must be repeatable.
   */
  commit<Name extends string, Output = undefined>(
    name: Literal<Name>,
    make: (call: Reporting) => Commit<Stored<Output>> | Promise<Commit<Stored<Output>>>,
    /** `undo` returns rows and messages that are written when the commit is undone. Without `undo` the rows of the commit remain. */
    options: StepOptions & ModeOption & { undo?: () => Writes } = {},
  ): Promise<Output> {
    const { key, undo, steps, ...policy } = options;
    assertMakes(name, { undo });
    const inline = this.#isInline(name, steps, { class: "commit", undoable: undo !== undefined });
    const step = { ...this.#call(name, key, undo !== undefined), guarded: true, commits: true, inline };
    return this.#guarded(step, this.#behaviour.commit(step, { make, undo, ...policy }) as Promise<Output>);
  }

  /**
   * Sleeps for a duration. Do not compute the duration from the current time, because the platform identifies the sleep by its duration.
   */
  async sleep<Name extends string>(name: Literal<Name>, duration: Duration, options: { key?: string } = {}): Promise<void> {
    this.#storeTags();
    return this.#behaviour.sleep(this.#call(name, options.key), duration);
  }

  /**
   * Waits for an event with a subject. The event may have arrived before the wait began. Duplicates of an event, early, late or after a
   * restart, are consumed once. Errors: `wait_timeout` after `timeout` (default 7 days); `config_invalid` at once if no route signals the
   * event.
   */
  async waitFor<Name extends string, Payload>(
    name: Literal<Name>,
    event: EventDefinition<Payload>,
    options: { subject: string; timeout?: Duration; key?: string },
  ): Promise<Payload> {
    assertDeclared(Boolean(event?.type && options), `The wait "${name}" has no event: give it an event and { subject }.`, {
      step: name,
    });
    this.#storeTags();
    const { key, ...about } = options;
    const step = this.#call(name, key);
    // The payload is read before the code receives the event, so that the latency of R2 does not decide a race.
    const open = async (taken: string) => {
      const envelope = parseEnvelope(JSON.parse(taken));
      const payload = await this.#platform.reading(step, () => unpackPayload(this.#replay.env.PAYLOADS, event, envelope));
      this.#replay.withhold(event.payload, payload);
      return payload;
    };
    return this.#behaviour.waitFor(step, { event, ...about }, open);
  }

  /**
   * Starts an instance of another workflow as a child, and waits for its end without polling. The child is accepted in the write that
   * records the step, once, under a key of its own: the workflow's `key` is not used. Returns the child's result. If the code ends before
   * the child, the child continues. Errors: `child_failed`, whose detail `child` has the id, status, code and message of a child that did
   * not complete; `too_many_hops` for a chain of children that is longer than `maxHops` of the catalog; `config_invalid` for a child that
   * needs the slot or the lane of an instance that waits for the child.
   */
  child<Name extends string, Payload, Result, Given>(
    name: Literal<Name>,
    workflow: ChildWorkflow<Payload, Result, Given>,
    input: NoInfer<Given>,
    options: { key?: string } = {},
  ): Promise<Result> {
    const { on, name: child } = workflow ?? {};
    assertDeclared(on?.kind === "command", `The child "${name}" needs a workflow that a command starts, and its input.`, { step: name });
    const { env, envelope, workflow: parent } = this.#replay;
    const start = { ...this.#call(`${CHILD_PREFIX}${name}`, options.key, true), guarded: true, commits: true };
    const path = [...(envelope.path ?? []), parent];
    const draft = () => {
      workflowBinding(env, child);
      assertFewHops({ maxHops: this.#maxHops }, child, { message_type: on.type, path });
      return on.from(input);
    };
    const request = { draft, workflow, hide: () => hidingIn(on.payload, input) };
    const work = async () => {
      const record = await this.#behaviour.start(start, request);
      if (!isChildRecord(record)) return record as Result;
      return this.#behaviour.child<Result>(this.#call(name, options.key), record, request);
    };
    return this.#guarded(start, work());
  }

  /**
   * Waits for an operator's answer through the API. After the timeout, `otherwise` applies. While an instance waits for an answer, the
   * keeper checks the instance once an hour. A question has one answer, however often the instance restarts.
   */
  async approve<Name extends string>(name: Literal<Name>, request: ApprovalRequest): Promise<Approval> {
    assertDeclared(Boolean(request), `The approval "${name}" has no question: give it { question }, in one sentence.`, { step: name });
    this.#storeTags();
    return this.#behaviour.approve(this.#call(name, request.key), request);
  }

  /**
   * Runs a function for each item, at most `concurrency` (default 10) at a time. The names of an item's platform steps contain the item's
   * key. The function returns the results in the order of the items. Errors: `config_invalid` if `items` is not an array, or `concurrency`
   * not a whole number from 1.
   */
  async map<Item, Output>(
    items: readonly Item[],
    options: { key: (item: Item) => string; concurrency?: number },
    each: (item: Item, step: Steps) => Promise<Output>,
  ): Promise<Output[]> {
    return mapItems(items, options.concurrency, (item) => {
      const keys = [...this.#items, String(options.key(item))];
      return each(item, new Steps(this.#replay, this.#platform, this.#behaviour, this.#mode, this.#maxHops, keys));
    });
  }

  /**
   * Returns the promise of a guarded step to the workflow's code. The failure of a guarded step ends the run even if the code does not
   * await the promise.
   */
  #guarded<T>(step: StepCall, taken: Promise<T>): Promise<T> {
    return Answer.of(taken, () => this.#replay.guarded.noteAwaited(step.label));
  }

  /** Stores new tags before a step that may last long. The step does not wait for the write, and the next record repeats a lost write. */
  #storeTags(): void {
    this.#replay.storeTags().catch(() => undefined);
  }

  #isInline(name: string, steps: StepMode = this.#mode, effect: Parameters<typeof goesInline>[0]): boolean {
    assertStepMode(steps, `The step "${name}"`);
    return steps === "inline" && goesInline(effect);
  }

  #call(name: string, key: string | undefined, undoable?: boolean): StepCall {
    // The advice omits the digits, so that it is the same for each run.
    if (DATA.test(name)) advise(this.#replay, name.replaceAll(/\d+/g, "…"), DATA_IN_NAME);
    return this.#replay.call(name, itemOf(key ? [...this.#items, String(key)] : this.#items), undoable);
  }
}

/** A date, a UUID or a number of five digits. A step name that contains one is probably computed from data. */
const DATA = /\d{4}-\d\d-\d\d|\d{5}|[\da-f]{8}-[\da-f]{4}-/;
const DATA_IN_NAME = "The step name contains data, so each run has another step: use a literal, and put the data into `key`.";

/**
 * The promise that a step returns. The promise records whether the code awaits the promise, because a failure that the code ignores must
 * still fail the run.
 */
class Answer<T> extends Promise<T> {
  /** A promise that then() returns is an ordinary promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  #hear: (() => void) | undefined;

  /** `hear` is called when the code awaits the promise, or passes it to a combinator such as `Promise.all`. */
  static of<T>(answer: Promise<T>, hear: () => void): Answer<T> {
    const own = new Answer<T>((resolve) => resolve(answer));
    // The run reports a failure of the step, so that the runtime must not report an unhandled rejection.
    own.then(undefined, () => undefined);
    own.#hear = hear;
    return own;
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one
  override then<A = T, B = never>(
    done?: ((value: T) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#hear?.();
    return super.then(done, failed);
  }
}

const DEFAULT_CONCURRENCY = 10;

async function mapItems<Item, Output>(
  items: readonly Item[],
  concurrency = DEFAULT_CONCURRENCY,
  each: (item: Item) => Promise<Output>,
): Promise<Output[]> {
  if (!Array.isArray(items))
    throw new MillraceError("config_invalid", "map requires an array of items: convert a Set or a Map first, [...items].");
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new MillraceError("config_invalid", `The concurrency of map must be a whole number of 1 or more, not ${String(concurrency)}.`);
  }
  const outputs: Output[] = new Array(items.length);
  const pending = items.entries();
  let ended: EndOfRecord | undefined;
  const one = async (index: number, item: Item) => {
    outputs[index] = await each(item);
  };
  const worker = async () => {
    for (const [index, item] of pending) {
      await one(index, item).catch((error) => {
        // In an undo, an item that reaches the end of its record does not end the other items.
        if (!(error instanceof EndOfRecord)) throw error;
        ended = error;
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  if (ended) throw ended;
  return outputs;
}
