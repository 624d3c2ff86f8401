import type { Duration } from "../contract/duration.ts";
import { isDefiniteRefusal, MillraceError, messageOf } from "../contract/errors.ts";
import { labelOf, UNDO_PREFIX } from "../contract/step-names.ts";
import { attemptEffect } from "../guard/effect.ts";
import { resultOf, type StepOutcome, unpackOutput } from "../guard/output.ts";
import { skippedRead } from "../guard/skipped.ts";
import type { Done, Policy, StepDefinition } from "../guard/step.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { NAMING_MS } from "../replay/step-order.ts";
import { type Approval, knownAnswer } from "../signals/approval.ts";
import { heldSignal } from "../signals/wait.ts";
import { CLAIMED } from "../store/inbox/classes.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { askerAt } from "./approve.ts";
import { type ChildRecord, type ChildRequest, endForUndo, isChildRecord, resultOfChild, undoChild } from "./child.ts";
import type { Platform } from "./platform.ts";
import {
  type CommitRequest,
  type EffectRequest,
  EndOfRecord,
  type EventRequest,
  endOfRecord,
  type StepBehaviour,
} from "./step-behaviour.ts";
import { isOutcome, isUnknown, LeftOpen, lastOf, newestOf, type Undoable, undoEffects } from "./undo-effects.ts";

/**
 * Undoes an instance. The class first runs the code of the instance's workflow again with the recorded outcomes. The repeated code
 * determines the effects of the run, their inputs and their order. Then this class undoes the effects.
 */
export class Undoing implements StepBehaviour {
  readonly #replay: Replay;
  readonly #platform: Platform;
  readonly #undoable: Undoable[] = [];
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #leftOpen: LeftOpen;
  /** Resolved when the code has reached all recorded and all open steps, because later steps have no effects. */
  readonly #hasMetAll = Promise.withResolvers<undefined>();
  #broken: { error: unknown } | undefined;

  constructor(replay: Replay, platform: Platform) {
    this.#replay = replay;
    this.#platform = platform;
    this.#leftOpen = new LeftOpen(replay);
  }

  /**
   * Replays `code`, then undoes the effects that `code` reached. The method returns the number of undone effects. The function throws the
   * error of the replay or of the undo.
   */
  async undo(code: () => Promise<unknown>): Promise<number> {
    const passed = await Promise.race([Promise.allSettled([code()]).then(([one]) => one), this.#hasMetAll.promise]);
    // Code that loops, such as polling, does not return by itself.
    if (passed) await this.#untilIdle();
    else await Promise.allSettled(this.#underWay);
    this.#assertWhole();
    const entries = await this.#replay.inbox.entries(true);
    const startedAt = Date.now();
    // A branch of the code may run other code between two steps.
    while (passed && !this.#broken && this.#missedOf(entries) && Date.now() - startedAt < NAMING_MS) await this.#untilIdle(20);
    this.#assertWhole();
    this.#replay.stepOrder.end();
    const missed = this.#missedOf(entries);
    const label = missed ? labelOf(missed.step, missed.item) : await this.#missedOpen(entries);
    if (label !== undefined) throw this.#whyMissed(label, missed !== undefined, passed);
    return undoEffects(this.#replay, this.#platform, this.#undoable, entries);
  }

  /**
   * Repeats a read if a later step has or may have an effect, because the output of a read is not recorded. If a read succeeded in the run
   * and fails in the undo, the undo fails, because the code would take another path.
   */
  read<Output>(step: StepCall, policy: Policy, read: (nth: number) => Promise<StepOutcome>): Promise<Output> {
    const { inbox } = this.#replay;
    const attempt = async (nth: number) => (await skippedRead(this.#replay, step)) ?? read(nth);
    const found = async () => {
      if (!(await this.#isBehindAll(step))) return this.#platform.settle<Output>(step, policy, attempt);
      this.#hasMetAll.resolve(undefined);
      return endOfRecord(step);
    };
    return this.#track(
      () => this.#replay.take(step, found).catch((error) => (inbox.wasOver(step.label) ? this.#break(error) : Promise.reject(error))),
      this.#hasMetAll.promise,
    );
  }

  /**
   * Returns the recorded output of an effect. If the outcome of the effect is unknown, the upstream or an operator decides the outcome. An
   * undoable effect with a repeatable class is executed again under its key if the effect failed without a record or a cancel interrupted
   * the effect. The repetition determines the effect's outcome.
   */
  effect<Input, Output>(step: StepCall, { definition, input, record, undo }: EffectRequest<Input, Output>): Promise<Output> {
    const asking = { ...definition, run: () => Promise.reject(new DidNotHappen()) };
    const settle = (entry: Seen | undefined) => {
      // A recorded effect keeps its position, which defines the order of the undo. A repeated effect gets the last position.
      const at = entry === undefined ? step : { ...step, position: entry.position };
      const effect = { replay: this.#replay, step: at, definition: entry === undefined ? definition : asking, input, writes: record };
      return this.#platform.settle(at, definition, (nth, doubted) => attemptEffect(effect, nth, doubted).catch(nothingIfNone));
    };
    return this.#find(step, async (failure) => {
      const hasWayBack = definition.undo !== undefined || undo !== undefined;
      const mayHaveHappened = (failure === undefined || !isDefiniteRefusal(failure)) && !CLAIMED.has(definition.effect);
      const output = await this.#recorded<Output>(step, { settle, mayHaveHappened, hasWayBack, failed: failure !== undefined });
      const back = definition.undo as StepDefinition<Done<unknown, unknown>, unknown> | undefined;
      const writes = () => (hasWayBack ? (undo?.(output) ?? {}) : refuse(noWayBack(step.label)));
      this.#undoable.push({ step, done: { input, output }, definition: back, writes });
      return output;
    });
  }

  commit<Output>(step: StepCall, { undo }: CommitRequest<Output>): Promise<Output> {
    return this.#find(step, async () => {
      const output = await this.#recorded<Output>(step);
      const writes = undo ?? (() => refuse(noWayBack(step.label)));
      this.#undoable.push({ step, done: { input: undefined, output }, definition: undefined, writes });
      return output;
    });
  }

  sleep(step: StepCall, _duration: Duration): Promise<void> {
    return this.#find(step, () => Promise.resolve());
  }

  waitFor<Payload>(step: StepCall, _request: EventRequest, open: (envelope: string) => Promise<Payload>): Promise<Payload> {
    return this.#find(step, async () => open((await this.#orAbort(step, () => heldSignal(this.#replay, step.label))) ?? endOfRecord(step)));
  }

  /** Undoes a child as an effect of its parent: the undo cancels or undoes the child, and ends after the child's undo. */
  start(step: StepCall, _request: ChildRequest): Promise<ChildRecord> {
    return this.#find(step, async () => {
      const record = await this.#recorded<ChildRecord>(step);
      const definition = undoChild as StepDefinition<Done<unknown, unknown>, unknown>;
      if (isChildRecord(record)) {
        this.#undoable.push({ step, done: { input: this.#undoOf(), output: record }, definition, writes: () => ({}) });
      }
      return record;
    });
  }

  child<Output>(step: StepCall, _record: ChildRecord, { hide }: ChildRequest): Promise<Output> {
    return this.#find(step, async () => {
      const told = await this.#orAbort(step, () => endForUndo(this.#replay, step));
      return (told ? await resultOfChild(this.#replay, step, told, hide) : endOfRecord(step)) as Output;
    });
  }

  approve(step: StepCall): Promise<Approval> {
    return this.#find(step, async () => (await this.#orAbort(step, () => knownAnswer(askerAt(this.#replay, step)))) ?? endOfRecord(step));
  }

  #undoOf() {
    const { envelope, instanceId, run } = this.#replay;
    return { tenantId: envelope.tenant_id, parent: instanceId, undo: run.undo ?? "" };
  }

  /** Finds the recorded outcome of a step, even if the code received the step's failure in the run. */
  #find<T>(step: StepCall, found: (failure?: Error) => Promise<T>): Promise<T> {
    return this.#track(() =>
      this.#replay.take(
        step,
        () => found(),
        (failure) => found(failure).catch(unlessEndOfRecord),
      ),
    );
  }

  /** `enough`: the undo does not wait for the step after this promise has resolved. */
  #track<T>(step: () => Promise<T>, enough?: Promise<undefined>): Promise<T> {
    const taken = step();
    const tracked = enough ? Promise.race([taken, enough]) : taken;
    this.#underWay.add(tracked);
    const release = () => void this.#underWay.delete(tracked);
    tracked.then(release, release);
    return taken;
  }

  async #recorded<Output>(step: StepCall, effect?: Unsettled): Promise<Output> {
    const { env, instanceId, inbox } = this.#replay;
    const seen = await this.#orAbort(step, () => inbox.entries());
    let entry = newestOf(seen, step);
    const last = lastOf(seen, step);
    const isOpen =
      effect?.mayHaveHappened === true &&
      (effect.hasWayBack || this.#couldBeTakenBack(step.label)) &&
      (await this.#orAbort(step, () => this.#leftOpen.has(step.label, last, effect.failed)));
    if (isOpen && !effect.hasWayBack) return this.#orAbort(step, () => Promise.reject(noWayBackFromLost(step.label)));
    if (effect && (isOpen || (entry && isUnknown(entry)))) {
      await effect.settle(isOpen ? undefined : entry).catch((error) => this.#break(error));
      entry = await this.#orAbort(step, async () => newestOf(await inbox.entries(true), step));
    }
    if (!entry || !isOutcome(entry)) return endOfRecord(step);
    const outcome = entry;
    return this.#orAbort(step, async () => (await unpackOutput(env.PAYLOADS, resultOf(instanceId, await inbox.whole(outcome)))) as Output);
  }

  /** True for a step that failed without a record and that had an undo handler when it failed. */
  #couldBeTakenBack(label: string): boolean {
    const { history } = this.#replay.inbox;
    return (history?.left[label]?.effect ?? history?.failureOf(label)?.effect) === "undoable";
  }

  /** True for a read if no later step is recorded or open. */
  async #isBehindAll(step: StepCall): Promise<boolean> {
    const { inbox } = this.#replay;
    await this.#orAbort(step, () => inbox.entries());
    return !inbox.wasOver(step.label) && this.#orAbort(step, () => this.#meetsAll());
  }

  /** True if the code has called all recorded and all open steps. */
  async #meetsAll(): Promise<boolean> {
    const { inbox, stepOrder } = this.#replay;
    const entries = await inbox.entries();
    const recorded = entries.filter(({ position }) => position >= 0).map(({ step: name, item }) => labelOf(name, item));
    const isMet = (label: string) => stepOrder.hasBegun(label);
    if (!recorded.every(isMet) || !Object.keys(inbox.history?.left ?? {}).every(isMet)) return false;
    return [...(await this.#leftOpen.cutOff())].every(isMet);
  }

  /** Finds an undoable effect that happened or may have happened, and that the code did not reach. */
  #missedOf(entries: readonly Seen[]): Seen | undefined {
    const isMet = ({ step: name, item }: Seen) => this.#undoable.some(({ step }) => step.name === name && step.item === item);
    return entries.find(
      (entry) => (entry.state === "done" || isUnknown(entry)) && entry.undoable === 1 && entry.position >= 0 && !isMet(entry),
    );
  }

  /** Finds the label of an undoable step of an earlier run, without a record, that the code did not reach and no operator skipped. */
  async #missedOpen(entries: readonly Seen[]): Promise<string | undefined> {
    const { inbox, stepOrder } = this.#replay;
    for (const [label, one] of Object.entries(inbox.history?.left ?? {})) {
      if (!("open" in one) || one.effect !== "undoable" || stepOrder.hasBegun(label)) continue;
      const last = entries.findLast(({ step, item }) => labelOf(step, item) === label);
      if (await this.#leftOpen.has(label, last, false)) return label;
    }
    return undefined;
  }

  /**
   * Creates the error for an effect that the code did not reach. The reason is that a read of the code now fails, that the code has
   * changed, or that the code ended too early.
   */
  #whyMissed(label: string, isRecorded: boolean, passed: PromiseSettledResult<unknown> | undefined): unknown {
    const thrown: unknown = passed?.status === "rejected" ? passed.reason : undefined;
    const isCut = thrown !== undefined && !(thrown instanceof EndOfRecord);
    if (isCut && this.#replay.failures.hasRejected) return thrown;
    const why = isCut ? `The code threw: ${messageOf(thrown)}` : "The code no longer reaches this step";
    const error = new MillraceError(
      "nondeterministic_steps",
      `"${label}" can be undone, but the undo did not reach it. ${why.replace(/\.$/, "")}. Fix the code, deploy it, then retry.${isRecorded ? "" : ` Or skip "${label}": the undo then ignores it.`}`,
    );
    // Only the step at which an undo fails can be skipped.
    if (!isRecorded) this.#replay.failures.noteEnd(label, error);
    return error;
  }

  /** Waits until no branch of the code is active. A branch continues within milliseconds after its step. A read may hang. */
  async #untilIdle(ms = 1): Promise<void> {
    do {
      await Promise.race([Promise.allSettled(this.#underWay), scheduler.wait(POLL_MS)]);
      if (await this.#meetsAll().catch(() => false)) this.#hasMetAll.resolve(undefined);
      await scheduler.wait(ms);
    } while (this.#underWay.size > 0);
  }

  /** Reads data outside a platform step. A failed read fails the undo, even if the workflow's code catches the error. */
  async #orAbort<T>(step: StepCall, look: () => Promise<T>): Promise<T> {
    try {
      return await this.#platform.reading({ label: `${UNDO_PREFIX}${step.label}` }, look);
    } catch (error) {
      this.#replay.failures.note(step.label, 1, error, true);
      this.#replay.failures.noteRejected(step.label, error);
      return this.#break(error);
    }
  }

  #assertWhole(): void {
    if (this.#broken) throw this.#broken.error;
  }

  #break(error: unknown): never {
    this.#broken ??= { error };
    throw error;
  }
}

/** Interval at which the undo checks if it has still to wait for a read. */
const POLL_MS = 100;

function unlessEndOfRecord(error: unknown): void {
  if (!(error instanceof EndOfRecord)) throw error;
}

interface Unsettled {
  readonly settle: (entry: Seen | undefined) => Promise<unknown>;
  /** True if the effect may have happened without a record, and a repetition under the effect's key is harmless. */
  readonly mayHaveHappened: boolean;
  readonly hasWayBack: boolean;
  /** True if the code receives the effect's failure. */
  readonly failed: boolean;
}

/** An undo throws this error instead of executing an effect that did not happen. */
class DidNotHappen extends MillraceError {
  constructor() {
    super("not_retryable", "Before the undo, the upstream reported that the effect did not happen.");
  }
}

/**
 * An effect that did not happen, according to the upstream, has nothing to undo. If the upstream now refuses a look-up or a repetition,
 * this refusal proves nothing about the earlier attempt.
 */
function nothingIfNone(error: unknown): StepOutcome {
  if (error instanceof DidNotHappen) return { output: null, outputRef: null };
  throw error;
}

function refuse(error: Error): never {
  throw error;
}

/** Creates the error for an effect whose undo handler a deployment has removed. This error stops the undo of the instance. */
function noWayBack(label: string): Error {
  return new MillraceError(
    "nondeterministic_steps",
    `"${label}" had an undo handler when it ran, and the deployed code has none. Deploy code with the handler, then retry. Or undo it by hand, then skip "${UNDO_PREFIX}${label}".`,
  );
}

/** Creates the error for an effect that failed without a record, and whose undo handler a deployment has removed. */
function noWayBackFromLost(label: string): Error {
  return new MillraceError(
    "nondeterministic_steps",
    `"${label}" may have happened. It had an undo handler then, and the deployed code has none. Deploy code with the handler, then retry. Or skip "${label}": the undo then ignores it.`,
  );
}
