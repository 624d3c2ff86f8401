import type { Duration } from "../contract/duration.ts";
import { parseEnvelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { attemptToken, digest } from "../contract/ids.ts";
import type { EventDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import type { Approval } from "../signals/approval.ts";
import { Answer } from "./answer.ts";
import type { ApprovalRequest } from "./approve.ts";
import { attemptCommit, attemptEffect } from "../guard/effect.ts";
import { askPerson, awaitEvent } from "./await.ts";
import { packOutput } from "../guard/output.ts";
import type { Place } from "../pass/step-call.ts";
import type { Platform } from "./platform.ts";
import type { Run } from "../pass/pass.ts";
import { assertWayBack, type Commit, type Retries, type StepDefinition, type Writes } from "../guard/step.ts";
import type { Stored } from "../guard/stored.ts";
import { EndOfRecord, type Walk } from "./undoing.ts";

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

/** Items of a `map` that are under way at a time. */
const DEFAULT_CONCURRENCY = 10;

/** The steps a workflow's code may take. Each is one platform step: billed once, remembered once. */
export class Steps {
  readonly #run: Run;
  readonly #platform: Platform;
  readonly #walk: Walk | undefined;
  readonly #item: string;

  /**
   * Built by the engine for each pass; with a walk, the pass is one that undoes. `item` is the key that `map` gives to all steps of one
   * item.
   */
  constructor(run: Run, platform: Platform, walk?: Walk, item = "") {
    this.#run = run;
    this.#platform = platform;
    this.#walk = walk;
    this.#item = item;
  }

  /** Reads something. May run more than once, promises nothing, writes no row. */
  async read<Name extends string, Output>(
    name: Literal<Name>,
    read: () => Promise<Stored<Output>>,
    options: StepOptions = {},
  ): Promise<Output> {
    const place = this.#place(name, options.key);
    const folder = `${this.#run.envelope.tenant_id}/${this.#run.instanceId}`;
    // An attempt that was given up may still answer: it writes under a name of its own.
    const path = () => `${folder}/${digest("read", place.label, attemptToken())}`;
    return this.#take(place, () =>
      this.#platform.settle<Output>(place, options, async () => packOutput(this.#run.env.PAYLOADS, path(), await read())),
    );
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
    } = {},
  ): Promise<Output> {
    const { key, undo, record = () => ({}) } = options;
    assertWayBack(definition, undo !== undefined);
    const place = { ...this.#place(name, key, definition.undo !== undefined || undo !== undefined), guarded: true };
    return this.#guarded(
      place,
      () => this.#platform.settle(place, definition, (attempt) => attemptEffect(this.#run, place, attempt, definition, input, record)),
      (walk) => walk.effect(place, definition, input, record, undo),
    );
  }

  /**
   * Writes rows of our own and emits messages, exactly once, in one atomic write. `make` may read before it answers what to write;
   * it runs again at every attempt, so anything else it does must bear repetition.
   */
  commit<Name extends string, Output = undefined>(
    name: Literal<Name>,
    make: () => Commit<Stored<Output>> | Promise<Commit<Stored<Output>>>,
    /** `undo`: what is written when the commit is taken back. One without it stays. */
    options: StepOptions & { undo?: () => Writes } = {},
  ): Promise<Output> {
    const place = { ...this.#place(name, options.key, options.undo !== undefined), guarded: true, commits: true };
    return this.#guarded(
      place,
      () => this.#platform.settle(place, options, (attempt) => attemptCommit(this.#run, place, attempt, make, options.timeout)),
      (walk) => walk.commit(place, options.undo),
    );
  }

  /** Sleeps. The duration must not be computed from the time: the platform remembers the sleep by it. */
  async sleep<Name extends string>(name: Literal<Name>, duration: Duration, options: { key?: string } = {}): Promise<void> {
    const place = this.#place(name, options.key);
    await this.#take(
      place,
      () => this.#platform.sleep(place, duration),
      () => Promise.resolve(),
    );
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
    const place = this.#place(name, options.key);
    // Opened before the code hears of it: how long a bucket takes must not decide a race.
    const open = (taken: string) =>
      this.#platform.reading(place, () => unpackPayload(this.#run.env.PAYLOADS, event, parseEnvelope(JSON.parse(taken))));
    return this.#take(
      place,
      async () => open(await awaitEvent(this.#run, this.#platform, place, event, options)),
      async (walk) => open(await walk.event(place)),
    );
  }

  /**
   * Waits for a person's answer through the API, or until the timeout, when `otherwise` applies. While it waits the keeper checks it once
   * an hour. One question, one answer, however often the instance restarts.
   */
  async approve<Name extends string>(name: Literal<Name>, request: ApprovalRequest): Promise<Approval> {
    const place = this.#place(name, request.key);
    return this.#take(
      place,
      () => askPerson(this.#run, this.#platform, place, request),
      (walk) => walk.answer(place),
    );
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
    const { concurrency = DEFAULT_CONCURRENCY } = options;
    if (!Array.isArray(items))
      throw new MillraceError("config_invalid", "map takes an array of items: make one of a Set or a Map first, [...items].");
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new MillraceError(
        "config_invalid",
        `map takes a whole number of items at a time, 1 or more; concurrency is ${String(concurrency)}.`,
      );
    }
    const outputs: Output[] = new Array(items.length);
    const pending = items.entries();
    let ended: EndOfRecord | undefined;
    const one = async (index: number, item: Item) => {
      const key = this.#item ? `${this.#item}/${options.key(item)}` : options.key(item);
      outputs[index] = await each(item, new Steps(this.#run, this.#platform, this.#walk, key));
    };
    const worker = async () => {
      for (const [index, item] of pending) {
        await one(index, item).catch((error) => {
          // An item that an undo finds undone says nothing of the others.
          if (!(error instanceof EndOfRecord)) throw error;
          ended = error;
        });
      }
    };
    await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
    if (ended) throw ended;
    return outputs;
  }

  /** Takes a step of the code: does it, or finds what came of it when the pass is one that undoes. */
  #take<T>(place: Place, doing: () => Promise<T>, walking?: (walk: Walk) => Promise<T>): Promise<T> {
    const walk = this.#walk;
    if (!walk) return this.#run.through(place, doing);
    if (!walking) return walk.again(place, () => this.#run.through(place, doing));
    const found = () => walking(walk);
    return walk.hold(() => this.#run.through(place, found, () => found().catch(unlessNothingCame)));
  }

  /** The same for a step whose failure ends the run though its code should wait for nothing. */
  #guarded<T>(place: Place, doing: () => Promise<T>, walking: (walk: Walk) => Promise<T>): Promise<T> {
    return Answer.of(this.#take(place, doing, walking), () => void this.#run.awaited.add(place.label));
  }

  #place(name: string, key: string | undefined, undoable?: boolean): Place {
    return this.#run.place(name, [this.#item, key].filter(Boolean).join("/"), undoable);
  }
}

function unlessNothingCame(error: unknown): void {
  if (!(error instanceof EndOfRecord)) throw error;
}
