import { UNDO_PREFIX } from "../contract/step-names.ts";
import { attemptCommit } from "../guard/commit.ts";
import { attemptEffect } from "../guard/effect.ts";
import { asWrites } from "../guard/record.ts";
import type { Done, StepDefinition, Writes } from "../guard/step.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { selectAskedAt, selectCutOff } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { FIRST_UNDO_POSITION, markUndone, nextGeneration, SKIPPED, UNDONE } from "../store/inbox/outcome.ts";
import type { Platform } from "./platform.ts";

export interface Undoable {
  readonly step: StepCall;
  readonly done: Done<unknown, unknown>;
  /**
   * The undo handler of the effect's step definition. The handler is undefined if the undo only writes rows and messages, or if the
   * deployed code has no handler.
   */
  readonly definition: StepDefinition<Done<unknown, unknown>, unknown> | undefined;
  /** Returns the rows and messages that the undo writes. Errors: `nondeterministic_steps` if the deployed code has no undo handler. */
  readonly writes: () => Writes;
}

/**
 * Undoes effects that are not undone yet, in the reverse order in which they happened. The recorded entry decides whether an effect can be
 * undone, as in the dry run. An undo handler that a later deployment adds does not apply to effects that are already recorded. The undo of
 * an effect is a guarded step, and one write both records the undo and marks the effect's entry as superseded. A repeated replay of the
 * undo finds the remaining effects. A retry of the instance then executes the effect again, under its next generation. The function returns
 * the number of undone effects.
 */
export async function undoEffects(
  replay: Replay,
  platform: Platform,
  undoable: readonly Undoable[],
  entries: readonly Seen[],
): Promise<number> {
  let undone = 0;
  const met = undoable.map((one) => ({ ...one, effect: newestOf(entries, one.step) }));
  for (const { step, done, definition, writes, effect } of met.toSorted((a, b) => positionOf(b.effect) - positionOf(a.effect))) {
    if (effect?.state !== "done" || effect.undoable !== 1 || effect.token === SKIPPED) continue;
    const key = { instanceId: replay.instanceId, step: effect.step, item: effect.item, generation: effect.generation };
    const back = undoStep(step, effect.position, entries);
    const superseded = () => [markUndone(key), nextGeneration(key)];
    const all = (): Writes => {
      const { statements = [], emit = [] } = asWrites(writes(), back.label);
      return { emit, statements: [...statements, ...superseded()] };
    };
    await platform.settle(back, definition ?? {}, (nth, doubted) =>
      definition
        ? attemptEffect({ replay, step: back, definition, input: done, writes: all }, nth, doubted)
        : attemptCommit({ replay, step: back, skipped: () => ({ statements: superseded() }) }, nth, all),
    );
    undone++;
  }
  return undone;
}

/**
 * Returns the step that undoes an effect. The undo step keeps its current generation until its output is stored, even if the undo has
 * already happened. If the effect was undone and executed again, the undo step has a new generation.
 */
function undoStep({ name, item, label }: StepCall, position: number, entries: readonly Seen[]): StepCall {
  const step = UNDO_PREFIX + name;
  const last = entries.findLast((entry) => entry.step === step && entry.item === item);
  const isOver = last?.state === "done" && last.error === null;
  const since = last === undefined ? 1 : isOver ? last.generation + 1 : last.generation;
  return { name: step, item, label: UNDO_PREFIX + label, position: FIRST_UNDO_POSITION - position, since };
}

function positionOf(entry: Seen | undefined): number {
  return entry?.position ?? 0;
}

/**
 * Finds the newest generation of a step. If the newest generation has failed and the previous generation was done or undone, the function
 * returns the previous generation.
 */
export function newestOf(entries: readonly Seen[], { name, item }: StepCall): Seen | undefined {
  const [last, before] = entries.filter((entry) => entry.step === name && entry.item === item).toReversed();
  return last?.state === "failed" && before && isOutcome(before) ? before : last;
}

export function isOutcome({ state, token }: Seen): boolean {
  return state === "done" || (state === "superseded" && token === UNDONE);
}

export function isUnknown({ state }: Seen): boolean {
  return state === "claimed" || state === "confirmed" || state === "in_doubt";
}

export function lastOf(entries: readonly Seen[], { name, item }: StepCall): Seen | undefined {
  return entries.findLast((entry) => entry.step === name && entry.item === item);
}

/** True for a generation that follows an undone generation, and for a generation that an operator rejected ("did not happen"). */
function isAnswered({ state, token }: Seen): boolean {
  return state === "failed" && token === "operator";
}

/**
 * The steps that had no recorded outcome when an undo began. These steps failed without a record, or the preceding cancel or restart
 * interrupted them. The steps without an outcome are queried once per replay.
 */
export class LeftOpen {
  readonly #replay: Replay;
  #asked: Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> | undefined;

  constructor(replay: Replay) {
    this.#replay = replay;
  }

  /**
   * True for a step without a recorded outcome when the undo began. `last` is the newest entry of the step's effect. `failed` is true if
   * the code receives the step's failure. The result is false if an earlier replay of this undo has undone the step, because the step then
   * has a record. The outcome of a step that an operator excluded from the undo stays unknown.
   */
  async has(label: string, last: Seen | undefined, failed: boolean): Promise<boolean> {
    if (last !== undefined && last.state !== "failed") return false;
    const { cutOff, undoneSince } = await this.#known();
    return (
      (failed || cutOff.has(label) || this.#replay.inbox.mayRemain(label)) &&
      !(last !== undefined && isAnswered(last) && last.updated_at >= undoneSince)
    );
  }

  async cutOff(): Promise<ReadonlySet<string>> {
    return (await this.#known()).cutOff;
  }

  #known(): Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> {
    this.#asked ??= this.#ask().catch((error) => {
      this.#asked = undefined;
      throw error;
    });
    return this.#asked;
  }

  async #ask(): Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> {
    const { env, run } = this.#replay;
    const [rows, [asked]] = await Promise.all([
      query<{ label: string }>(env.DB, selectCutOff(run.undo)),
      query<{ at: number }>(env.DB, selectAskedAt(run.undo)),
    ]);
    return { cutOff: new Set(rows.map(({ label }) => label)), undoneSince: asked?.at ?? 0 };
  }
}
