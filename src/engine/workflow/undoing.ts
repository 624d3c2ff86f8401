import { MillraceError, messageOf } from "../contract/errors.ts";
import { type Approval, knownAnswer } from "../signals/approval.ts";
import { heldSignal } from "../signals/wait.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { nextGeneration, takenBack, UNDONE } from "../store/inbox/outcome.ts";
import { askerAt } from "./approve.ts";
import { attemptCommit, attemptEffect } from "../guard/effect.ts";
import { NAMING_MS } from "../pass/course.ts";
import { UNDO_PREFIX } from "../pass/name.ts";
import { unpackOutput } from "../guard/output.ts";
import type { Place } from "../pass/step-call.ts";
import type { Platform } from "./platform.ts";
import { type Settled, stored } from "../guard/record.ts";
import type { Run } from "../pass/pass.ts";
import type { Done, StepDefinition, Writes } from "../guard/step.ts";
import { asWrites } from "../guard/writes.ts";

/**
 * Thrown at the first step without a recorded outcome: there is nothing behind it to take back. Unwinds the workflow's code; if that
 * catches it, the walk goes on.
 */
export class EndOfRecord extends Error {
  override readonly name = "EndOfRecord";
}

/** One effect that can be taken back. */
interface Undoable {
  place: Place;
  done: Done<unknown, unknown>;
  definition: StepDefinition<Done<unknown, unknown>, unknown> | undefined;
  writes: () => Writes;
}

/**
 * Undoes an instance: walks through the workflow's code once more, with the recorded outputs instead of effects, so that the code itself
 * says which effects there were, with what input and in which order; then takes them back in reverse order. Each is taken back by a
 * guarded step of its own, and recorded in one write with the effect's entry, which is superseded: a pass that is repeated finds what
 * is left. The effect's next generation is free to be claimed, so that a retry does it again.
 */
export class Walk {
  readonly #run: Run;
  readonly #platform: Platform;
  readonly #undoable: Undoable[] = [];
  readonly #underWay = new Set<Promise<unknown>>();
  #broken: { error: unknown } | undefined;

  constructor(run: Run, platform: Platform) {
    this.#run = run;
    this.#platform = platform;
  }

  /**
   * Walks through `code`, then takes back what it met. Answers how many effects that were. Throws what the walk, or an undo, failed with.
   */
  async undo(code: () => Promise<unknown>): Promise<number> {
    const [walked] = await Promise.allSettled([code()]);
    await this.#quiet();
    this.#assertWhole();
    const entries = await this.#run.entries(true);
    const startedAt = Date.now();
    // A branch may be at work of its own between two steps.
    while (!this.#broken && this.#missedOf(entries) && Date.now() - startedAt < NAMING_MS) await this.#quiet(20);
    this.#assertWhole();
    const missed = this.#missedOf(entries);
    if (missed) throw this.#whyMissed(missed, walked);
    return this.#takeBack(entries);
  }

  /** What an effect answered. One whose outcome nobody recorded is not repeated: the upstream, or a person, says whether it happened. */
  async effect<Input, Output>(
    place: Place,
    definition: StepDefinition<Input, Output>,
    input: Input,
    record: (output: Output) => Writes,
    undo: ((output: Output) => Writes) | undefined,
  ): Promise<Output> {
    const asking = { ...definition, run: () => Promise.reject(new DidNotHappen()) };
    const output = await this.#recorded<Output>(place, ({ position }) => {
      // Whatever is found happened when it was begun: it is taken back in that order.
      const at = { ...place, position };
      return this.#platform.settle(at, definition, (attempt) =>
        attemptEffect(this.#run, at, attempt, asking, input, record).catch(nothingIfItDidNotHappen),
      );
    });
    if (definition.undo || undo) {
      const back = definition.undo as StepDefinition<Done<unknown, unknown>, unknown> | undefined;
      this.#undoable.push({ place, done: { input, output }, definition: back, writes: () => (undo ? undo(output) : {}) });
    }
    return output;
  }

  /** What a commit answered. */
  async commit<Output>(place: Place, undo: (() => Writes) | undefined): Promise<Output> {
    const output = await this.#recorded<Output>(place);
    if (undo) this.#undoable.push({ place, done: { input: undefined, output }, definition: undefined, writes: undo });
    return output;
  }

  /** The event that a wait took, as JSON. */
  async event(place: Place): Promise<string> {
    return (await this.#local(place, () => heldSignal(this.#run, place.label))) ?? end(place);
  }

  /** The answer that a question got. */
  async answer(place: Place): Promise<Approval> {
    return (await this.#local(place, () => knownAnswer(askerAt(this.#run, place)))) ?? end(place);
  }

  /** A step that is made again, because nobody has recorded it. One that had answered, and fails now, would lead the code another way. */
  again<T>(place: Place, step: () => Promise<T>): Promise<T> {
    return this.hold(() => step().catch((error) => (this.#run.wasOver(place.label) ? this.#break(error) : Promise.reject(error))));
  }

  /** Remembers that a step is under way: nothing is taken back while a parallel branch is still walked. */
  hold<T>(step: () => Promise<T>): Promise<T> {
    const held = step();
    this.#underWay.add(held);
    const release = () => void this.#underWay.delete(held);
    held.then(release, release);
    return held;
  }

  async #recorded<Output>(place: Place, ask?: (entry: Seen) => Promise<unknown>): Promise<Output> {
    let entry = await this.#local(place, async () => newest(await this.#run.entries(), place));
    if (ask && entry && UNKNOWN.has(entry.state)) {
      await ask(entry).catch((error) => this.#break(error));
      entry = await this.#local(place, async () => newest(await this.#run.entries(true), place));
    }
    if (!entry || !isOutcome(entry)) return end(place);
    const outcome = entry;
    return this.#local(
      place,
      async () => (await unpackOutput(this.#run.env.PAYLOADS, stored(this.#run.instanceId, await this.#run.whole(outcome)))) as Output,
    );
  }

  /** An effect that happened, or may have, that could be taken back, and that the code did not come by. */
  #missedOf(entries: readonly Seen[]): Seen | undefined {
    const isMet = ({ step, item }: Seen) => this.#undoable.some(({ place }) => place.name === step && place.item === item);
    return entries.find(
      (entry) => (entry.state === "done" || UNKNOWN.has(entry.state)) && entry.undoable === 1 && entry.position >= 0 && !isMet(entry),
    );
  }

  /** It is not left out in silence: a step of the code fails now (a read), or the code has changed, or ended too early. */
  #whyMissed({ step }: Seen, walked: PromiseSettledResult<unknown>): unknown {
    const thrown: unknown = walked.status === "rejected" ? walked.reason : undefined;
    const isCut = thrown !== undefined && !(thrown instanceof EndOfRecord);
    if (isCut && this.#run.failures.hasRejected) return thrown;
    const why = isCut ? `The code threw: ${messageOf(thrown)}` : "The code does not come by it any more";
    return new MillraceError(
      "nondeterministic_steps",
      `"${step}" could be taken back, and nothing was. ${why.replace(/\.$/, "")}. Mend the code, deploy it, then retry.`,
    );
  }

  async #takeBack(entries: readonly Seen[]): Promise<number> {
    let undone = 0;
    const met = this.#undoable.map((one) => ({ ...one, effect: newest(entries, one.place) }));
    for (const { place, done, definition, writes, effect } of met.toSorted((a, b) => positionOf(b.effect) - positionOf(a.effect))) {
      if (effect?.state !== "done") continue;
      const key = { instanceId: this.#run.instanceId, step: effect.step, item: effect.item, generation: effect.generation };
      const back = undoPlace(place, effect.position, entries);
      const all = (): Writes => {
        const { statements = [], emit = [] } = asWrites(writes(), back.label);
        return { emit, statements: [...statements, takenBack(key), nextGeneration(key)] };
      };
      await this.#platform.settle(back, definition ?? {}, (attempt) =>
        definition ? attemptEffect(this.#run, back, attempt, definition, done, all) : attemptCommit(this.#run, back, attempt, all),
      );
      undone++;
    }
    return undone;
  }

  /** Until no branch of the code is under way. One that goes on behind a step does so within a moment. */
  async #quiet(ms = 1): Promise<void> {
    do {
      await Promise.allSettled(this.#underWay);
      await scheduler.wait(ms);
    } while (this.#underWay.size > 0);
  }

  /** Something of the walk's own that is no platform step: where it fails, the undo fails, also when the workflow's code catches it. */
  async #local<T>(place: Place, look: () => Promise<T>): Promise<T> {
    try {
      return await this.#platform.reading({ label: `${UNDO_PREFIX}${place.label}` }, look);
    } catch (error) {
      this.#run.failures.note(place.label, 1, error, true);
      this.#run.failures.noteRejected(place.label, error);
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

/** Positions of what the engine itself records stand below those of the code's steps, one for each of them. */
const FIRST_UNDO_POSITION = -2;

/**
 * The step that takes an effect back: at its first generation, at the one that is under way (also when it happened, and only its answer
 * could not be kept), or at a new one when the effect was undone and done again.
 */
function undoPlace({ name, item, label }: Place, position: number, entries: readonly Seen[]): Place {
  const step = UNDO_PREFIX + name;
  const last = entries.findLast((entry) => entry.step === step && entry.item === item);
  const isOver = last?.state === "done" && last.error === null;
  const since = last === undefined ? 1 : isOver ? last.generation + 1 : last.generation;
  return { name: step, item, label: UNDO_PREFIX + label, position: FIRST_UNDO_POSITION - position, since };
}

function positionOf(entry: Seen | undefined): number {
  return entry?.position ?? 0;
}

const UNKNOWN: ReadonlySet<Seen["state"]> = new Set(["claimed", "confirmed", "in_doubt"]);

function isOutcome({ state, token }: Seen): boolean {
  return state === "done" || (state === "superseded" && token === UNDONE);
}

/** What is known of a step: its newest generation; where that did nothing yet, the one before, if it was taken back. */
function newest(entries: readonly Seen[], { name, item }: Place): Seen | undefined {
  const [last, before] = entries.filter((entry) => entry.step === name && entry.item === item).toReversed();
  return last?.state === "failed" && before && isOutcome(before) ? before : last;
}

function end({ label }: Place): never {
  throw new EndOfRecord(`"${label}" did nothing that could be taken back.`);
}

/** Said instead of an effect: what did not happen before does not happen while it is undone. */
class DidNotHappen extends MillraceError {
  constructor() {
    super("not_retryable", "Asked before an undo, the upstream said that it did not happen.");
  }
}

function nothingIfItDidNotHappen(error: unknown): Settled {
  if (error instanceof DidNotHappen) return { output: null, outputRef: null };
  throw error;
}
