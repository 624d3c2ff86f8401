import type { WorkflowStep } from "cloudflare:workers";
import { isSimulatedDeath } from "../contract/crash-points.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import { parseEnvelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import { type Approval, answerEventType, approvalId, askQuestion, settleQuestion } from "../signals/approval.ts";
import { registerWait, waitEventType } from "../signals/wait.ts";
import { type ApprovalRequest, askerAt, questionOf } from "./approve.ts";
import { attemptCommit, attemptEffect } from "./attempt.ts";
import { doubtEventType } from "./doubt.ts";
import { asPlatformError, isTerminal, nextDelayMs } from "./failure.ts";
import { packOutput, unpackOutput } from "./output.ts";
import type { Settled } from "./record.ts";
import type { Place, Run } from "./run.ts";
import { type Commit, DEFAULT_RETRIES, DEFAULT_TIMEOUT, type Retries, type StepDefinition, type Writes } from "./step.ts";

/** A step name that the compiler can see: a literal. Names made at run time would differ on the next pass, and the step would run twice. */
export type Literal<Name extends string> = string extends Name ? never : Record<never, never> extends Record<Name, 1> ? never : Name;

export interface StepOptions {
  /** Tells parallel or repeated calls of one name apart. From the data, such as an item's id; never a counter or the time. */
  key?: string;
  retries?: Retries;
  timeout?: Duration;
}

/** The steps a workflow's code may take. Each is one platform step: billed once, remembered once. */
export class Steps {
  readonly #run: Run;
  readonly #platform: WorkflowStep;
  readonly #item: string;

  /** Built by the engine for each pass; `item` is the key that `map` gives to all steps of one item. */
  constructor(run: Run, platform: WorkflowStep, item = "") {
    this.#run = run;
    this.#platform = platform;
    this.#item = item;
  }

  /** Reads something. May run more than once, promises nothing, writes no row. */
  async read<Name extends string, Output>(name: Literal<Name>, read: () => Promise<Output>, options: StepOptions = {}): Promise<Output> {
    const place = this.#place(name, options.key);
    const path = `${this.#run.envelope.tenant_id}/${this.#run.instanceId}/${encodeURIComponent(place.label)}`;
    const settled = await this.#do(place, options, async () => packOutput(this.#run.env.PAYLOADS, path, await read()));
    return this.#unpack<Output>(place, settled);
  }

  /** Runs a guarded effect, with the promise of its class. `record` says which rows and messages are written with its outcome. */
  async effect<Name extends string, Input, Output>(
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
    const place = this.#place(name, options.key);
    const record = options.record ?? (() => ({}));
    const settled = await this.#do(place, definition, (attempt) => attemptEffect(this.#run, place, attempt, definition, input, record));
    return this.#unpack<Output>(place, settled, (round) =>
      this.#do({ ...place, label: `${place.label} · after doubt ${round}` }, definition, (attempt) =>
        attemptEffect(this.#run, place, attempt + 1, definition, input, record),
      ),
    );
  }

  /**
   * Writes rows of our own and emits messages, exactly once, in one atomic write. `make` may read before it answers what to write;
   * it runs again at every attempt, so anything else it does must bear repetition.
   */
  async commit<Name extends string, Output = undefined>(
    name: Literal<Name>,
    make: () => Commit<Output> | Promise<Commit<Output>>,
    options: StepOptions = {},
  ): Promise<Output> {
    const place = this.#place(name, options.key);
    return this.#unpack<Output>(place, await this.#do(place, options, (attempt) => attemptCommit(this.#run, place, attempt, make)));
  }

  /** Sleeps. The duration must not be computed from the time: the platform remembers the sleep by it. */
  async sleep<Name extends string>(name: Literal<Name>, duration: Duration, options: { key?: string } = {}): Promise<void> {
    await this.#platform.sleep(this.#place(name, options.key).label, durationMs(duration));
  }

  /**
   * Waits for an event about a subject, also one that came before the wait began. Twice the same event, early, late or after a
   * restart: it is taken once. Errors: `wait_timeout` after `timeout` (default 7 days); `config_invalid` at once for an event that no route signals.
   */
  async waitFor<Name extends string, Payload>(
    name: Literal<Name>,
    event: MessageDefinition<Payload>,
    options: { subject: string; timeout?: Duration; key?: string },
  ): Promise<Payload> {
    const place = this.#place(name, options.key);
    const early = await this.#do(place, {}, async () => {
      this.#assertSignalled(event.type);
      return registerWait(this.#run, place.label, event.type, options.subject);
    });
    const envelope = parseEnvelope(early === null ? await this.#awaitSignal(place, options.timeout ?? "7 days") : JSON.parse(early));
    return unpackPayload(this.#run.env.PAYLOADS, event, envelope);
  }

  /**
   * Asks a person. The instance waits, for nothing and at no cost, until somebody answers through the API or the time is over; then
   * what `otherwise` says is true. One question, one answer, however often the instance restarts.
   */
  async approve<Name extends string>(name: Literal<Name>, request: ApprovalRequest): Promise<Approval> {
    const place = this.#place(name, request.key);
    const asker = askerAt(this.#run, place);
    const asked = await this.#do(place, {}, async () => askQuestion(asker, questionOf(this.#run.workflow, place, request)));
    if ("approved" in asked) return asked;
    const type = answerEventType(approvalId(asker.instanceId, place.label));
    try {
      return (await this.#platform.waitForEvent<Approval>(`${place.label} · answer`, { type, timeout: asked.leftMs })).payload;
    } catch (cause) {
      const settled = await this.#do({ ...place, label: `${place.label} · time is over` }, {}, () => settleQuestion(asker));
      if ("leftMs" in settled) throw cause;
      return settled;
    } finally {
      this.#run.noteWaited();
    }
  }

  /** Runs a function for each item, a few at a time; each item's steps carry its key. Answers in the items' order. */
  async map<Item, Output>(
    items: readonly Item[],
    options: { key: (item: Item) => string; concurrency?: number },
    each: (item: Item, step: Steps) => Promise<Output>,
  ): Promise<Output[]> {
    const outputs: Output[] = new Array(items.length);
    const pending = items.entries();
    const worker = async () => {
      for (const [index, item] of pending) {
        const key = this.#item ? `${this.#item}/${options.key(item)}` : options.key(item);
        outputs[index] = await each(item, new Steps(this.#run, this.#platform, key));
      }
    };
    await Promise.all(Array.from({ length: Math.min(options.concurrency ?? 10, items.length) }, worker));
    return outputs;
  }

  /** An event that no route signals reaches no wait: better said now than after the wait's whole time. Once it is mended, the retried step waits. */
  #assertSignalled(type: string): void {
    const { signalled } = this.#run;
    if (!signalled || signalled.has(type)) return;
    throw new MillraceError(
      "config_invalid",
      `No route signals "${type}" to the runs that wait for it: add signal() to its line in the routes, on(…, signal()), deploy, then retry.`,
    );
  }

  #place(name: string, key: string | undefined): Place {
    return this.#run.place(name, [this.#item, key].filter(Boolean).join("/"));
  }

  /** One platform step: failures are noted for the operator, terminal ones end it, and its retries wait as long as the upstream asks. */
  async #do<T extends Rpc.Serializable<T>>(
    place: Place,
    policy: { retries?: Retries; timeout?: Duration },
    body: (attempt: number) => Promise<T>,
  ): Promise<T> {
    const run = this.#run;
    const retries = policy.retries ?? DEFAULT_RETRIES;
    let ran = false;
    const attempt = this.#platform.do(
      place.label,
      {
        retries: {
          limit: retries.limit,
          // The function says the whole pause: by itself the platform would double it at each attempt.
          backoff: "constant",
          delay: ({ ctx, error }) => nextDelayMs(retries, ctx.attempt, run.lastError(place.label) ?? error),
        },
        timeout: durationMs(policy.timeout ?? DEFAULT_TIMEOUT) + RECORDING_MARGIN_MS,
      },
      async ({ attempt }) => {
        ran = true;
        try {
          return await body(attempt);
        } catch (error) {
          if (!isSimulatedDeath(error)) run.noteFailure(place.label, attempt, error, isTerminal(error) || attempt > retries.limit);
          throw asPlatformError(error);
        }
      },
    );
    const result = await attempt.catch((error) => {
      run.noteRejected(place.label, error);
      throw error;
    });
    if (!ran) run.noteReplay();
    return result as T;
  }

  async #awaitSignal(place: Place, timeout: Duration): Promise<unknown> {
    const type = waitEventType(this.#run.instanceId, place.label);
    try {
      const event = await this.#platform.waitForEvent(`${place.label} · signal`, { type, timeout: durationMs(timeout) });
      this.#run.noteWaited();
      return event.payload;
    } catch (cause) {
      throw new MillraceError("wait_timeout", `No event arrived for "${place.label}" within ${timeout}.`, { cause });
    }
  }

  /** The step's output; a step in doubt parks the instance here until an operator has answered, then looks again. */
  async #unpack<Output>(place: Place, first: Settled, again?: (round: number) => Promise<Settled>): Promise<Output> {
    let settled = first;
    for (let round = 1; "inDoubt" in settled && again; round++) {
      await this.#platform.waitForEvent(`${place.label} · in doubt ${round}`, {
        type: doubtEventType(settled.inDoubt),
        timeout: "365 days",
      });
      this.#run.noteWaited();
      settled = await again(round);
    }
    return (await unpackOutput(this.#run.env.PAYLOADS, settled as Exclude<Settled, { inDoubt: string }>)) as Output;
  }
}

/** The platform's time-out leaves this much beyond the effect's own, so that an effect which ends in time can still be recorded. */
const RECORDING_MARGIN_MS = 15_000;
