import { assertDeclared } from "../contract/declared.ts";
import type { Duration } from "../contract/duration.ts";
import { parseEnvelope } from "../contract/envelope.ts";
import { attemptToken, digest } from "../contract/ids.ts";
import type { EventDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import { assertStepMode, type StepMode } from "../contract/step-mode.ts";
import { itemOf } from "../contract/step-names.ts";
import { goesLean } from "../guard/goes-lean.ts";
import { packOutput } from "../guard/output.ts";
import { assertMakes, assertUndo, assertWayBack, type Commit, type Retries, type StepDefinition, type Writes } from "../guard/step.ts";
import type { Stored } from "../guard/stored.ts";
import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import type { Approval } from "../signals/approval.ts";
import { CLAIMED } from "../store/inbox/classes.ts";
import { Answer } from "./answer.ts";
import type { ApprovalRequest } from "./approve.ts";
import { mapItems } from "./map.ts";
import type { Platform } from "./platform.ts";
import type { Taking } from "./taking.ts";

/**
 * A step name that the compiler can see: a literal. Names made at run time would differ on the next pass, and the step would run twice. In
 * the place of any other stands a sentence, which the compiler prints.
 */
export type Literal<Name extends string> = string extends Name
  ? NoLiteral
  : Record<never, never> extends Record<Name, 1>
    ? NoLiteral
    : Name;

type NoLiteral = "A step name is a literal; put data into { key }";

export interface StepOptions {
  /** Tells parallel or repeated calls of one name apart. From the data, such as an item's id; never a counter or the time. */
  key?: string;
  retries?: Retries;
  timeout?: Duration;
}

/** How a step's first attempt is made, where its workflow says otherwise (`steps`). */
interface ModeOption {
  steps?: StepMode;
}

/** The steps a workflow's code may take. Each is one platform step, billed once, remembered once; a lean one only if it is tried again. */
export class Steps {
  readonly #pass: Pass;
  readonly #platform: Platform;
  readonly #taking: Taking;
  readonly #mode: StepMode;
  readonly #items: readonly string[];

  /** Built by the engine for each pass. `items`: the keys that the maps around them give to all their steps. */
  constructor(pass: Pass, platform: Platform, taking: Taking, mode: StepMode, items: readonly string[] = []) {
    this.#pass = pass;
    this.#platform = platform;
    this.#taking = taking;
    this.#mode = mode;
    this.#items = items;
  }

  /** Reads something. May run more than once, promises nothing, writes no row. */
  async read<Name extends string, Output>(
    name: Literal<Name>,
    read: () => Stored<Output> | Promise<Stored<Output>>,
    options: StepOptions = {},
  ): Promise<Output> {
    const step = { ...this.#call(name, options.key), reads: true };
    const { env, envelope, instanceId } = this.#pass;
    const folder = `${envelope.tenant_id}/${instanceId}`;
    // An attempt that was given up may still answer: it writes under a name of its own.
    const path = () => `${folder}/${digest("read", step.label, attemptToken())}`;
    return this.#taking.read(step, options, async () => packOutput(env.PAYLOADS, path, await read()));
  }

  /** Runs a guarded effect, with the promise of its class. `record` says which rows and messages are written with its outcome. */
  effect<Name extends string, Input, Output>(
    name: Literal<Name>,
    definition: StepDefinition<Input, Output>,
    input: NoInfer<Input>,
    options: {
      key?: string;
      record?: (output: NoInfer<Output>) => Writes;
      /** What is written when the effect is taken back, in one write with that. */
      undo?: (output: NoInfer<Output>) => Writes;
    } & ModeOption = {},
  ): Promise<Output> {
    const { key, undo, record = () => ({}), steps } = options;
    assertMakes(name, { undo, record });
    assertUndo(definition);
    assertWayBack(definition, undo !== undefined);
    const undoable = definition.undo !== undefined || undo !== undefined;
    const lean = this.#isLean(name, steps, { class: definition.effect, undoable });
    const step = { ...this.#call(name, key, undoable), guarded: true, acts: !CLAIMED.has(definition.effect), lean };
    return this.#guarded(step, this.#taking.effect(step, { definition, input, record, undo }));
  }

  /**
   * Writes rows of our own and emits messages, exactly once, in one atomic write. `make` may read before it answers what to write;
   * it runs again at every attempt, so anything else it does must bear repetition.
   */
  commit<Name extends string, Output = undefined>(
    name: Literal<Name>,
    make: () => Commit<Stored<Output>> | Promise<Commit<Stored<Output>>>,
    /** `undo`: what is written when the commit is taken back. One without it stays. */
    options: StepOptions & ModeOption & { undo?: () => Writes } = {},
  ): Promise<Output> {
    const { key, undo, steps, ...policy } = options;
    assertMakes(name, { undo });
    const lean = this.#isLean(name, steps, { class: "commit", undoable: undo !== undefined });
    const step = { ...this.#call(name, key, undo !== undefined), guarded: true, commits: true, lean };
    return this.#guarded(step, this.#taking.commit(step, { make, undo, ...policy }) as Promise<Output>);
  }

  /** Sleeps. The duration must not be computed from the time: the platform remembers the sleep by it. */
  async sleep<Name extends string>(name: Literal<Name>, duration: Duration, options: { key?: string } = {}): Promise<void> {
    return this.#taking.sleep(this.#call(name, options.key), duration);
  }

  /**
   * Waits for an event about a subject, also one that came before the wait began. Twice the same event, early, late or after a
   * restart: it is taken once. Errors: `wait_timeout` after `timeout` (default 7 days); `config_invalid` at once for an event that no route
   * signals.
   */
  async waitFor<Name extends string, Payload>(
    name: Literal<Name>,
    event: EventDefinition<Payload>,
    options: { subject: string; timeout?: Duration; key?: string },
  ): Promise<Payload> {
    assertDeclared(Boolean(event?.type && options), `The wait "${name}" has no event: give it an event and { subject }.`, {
      step: name,
    });
    const { key, ...about } = options;
    const step = this.#call(name, key);
    // Opened before the code hears of it: how long a bucket takes must not decide a race.
    const open = async (taken: string) => {
      const envelope = parseEnvelope(JSON.parse(taken));
      const payload = await this.#platform.reading(step, () => unpackPayload(this.#pass.env.PAYLOADS, event, envelope));
      this.#pass.withhold(event.payload, payload);
      return payload;
    };
    return this.#taking.waitFor(step, { event, ...about }, open);
  }

  /**
   * Waits for a person's answer through the API, or until the timeout, when `otherwise` applies. While it waits the keeper checks it once
   * an hour. One question, one answer, however often the instance restarts.
   */
  async approve<Name extends string>(name: Literal<Name>, request: ApprovalRequest): Promise<Approval> {
    assertDeclared(Boolean(request), `The approval "${name}" has no question: give it { question }, in one sentence.`, { step: name });
    return this.#taking.approve(this.#call(name, request.key), request);
  }

  /**
   * Runs a function for each item, `concurrency` (default 10) at a time; each item's steps carry its key. Answers in the items' order.
   * Errors: `config_invalid` for items that are no array, and for a concurrency that is no whole number from 1.
   */
  async map<Item, Output>(
    items: readonly Item[],
    options: { key: (item: Item) => string; concurrency?: number },
    each: (item: Item, step: Steps) => Promise<Output>,
  ): Promise<Output[]> {
    return mapItems(items, options.concurrency, (item) => {
      const keys = [...this.#items, String(options.key(item))];
      return each(item, new Steps(this.#pass, this.#platform, this.#taking, this.#mode, keys));
    });
  }

  /** A guarded step's answer: its failure ends the run though the code should wait for nothing. */
  #guarded<T>(step: StepCall, taken: Promise<T>): Promise<T> {
    return Answer.of(taken, () => this.#pass.guarded.noteAwaited(step.label));
  }

  #isLean(name: string, steps: StepMode = this.#mode, effect: Parameters<typeof goesLean>[0]): boolean {
    assertStepMode(steps, `The step "${name}"`);
    return steps === "lean" && goesLean(effect);
  }

  #call(name: string, key: string | undefined, undoable?: boolean): StepCall {
    return this.#pass.call(name, itemOf(key ? [...this.#items, String(key)] : this.#items), undoable);
  }
}
