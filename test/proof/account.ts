// Compares the records of a run with the model's expectation. Uses numbers only, and no code of the engine.
import type { Effect, Expectation, Expected } from "./model.ts";
import type { Trace } from "./program.ts";

/** A problem: an effect happened too often, is missing, was not requested, or has not ended. */
const KINDS = ["duplicate", "lost", "invented", "stuck"] as const;
export type Kind = (typeof KINDS)[number];

/** The kind of a problem, by its name; a problem without a name is an effect that was not requested. */
export const kindOf = (problem: string): Kind => KINDS.find((kind) => problem.includes(`${kind}: `)) ?? "invented";

/** For a run that was reported as stuck, and ended late. */
export const IT_ENDED = "\n  The run ended without help,";
export const wasLate = (problem: string): boolean => problem.includes(IT_ENDED);

/** The result of a run: its end, and the required effects of its branches. */
export interface Verdict {
  ended: "complete" | "terminated";
  /** The code's final branch; for an undone run, the branch before the undo. */
  expected: Expectation;
  trace: Trace;
  /** Earlier branches, which were undone: effects without an `undo` handler remain. */
  before: readonly Expectation[];
  /** An operator requested an undo while not all started effects were recorded. */
  cut: boolean;
  /** An operator has stopped the run, or closed it, before its code ended: an interrupted effect may be recorded, or not. */
  stopped?: boolean;
  /** Operators have skipped steps of the run: their outputs are reported, although no effect happened. */
  skips?: boolean;
  /** Reasons of the expected dead letters. */
  letters: readonly string[];
}

/** The counts of one effect: executions, undos, and reports. */
export interface Account {
  happened: number;
  back: number;
  undos: number;
  /** The number of an operator's repeats of an effect with an unknown outcome, whether it had happened or not. */
  again: number;
  events: number;
  commands: number;
  heard: number;
}

/** Compares the record of one effect with the expectation: once per undo, and once more if the effect remains. */
export function wrongWith(effect: Effect, { happened, back, undos, again, events, commands, heard }: Account, verdict: Verdict): string[] {
  const [least, most] = standing(effect, verdict);
  const isNatural = effect.class === "natural";
  const more = isNatural && most + back > 0 ? Number.POSITIVE_INFINITY : effect.class === "once" ? again : 0;
  const problems: string[] = [];
  const stands = happened - back;
  if (stands < least || stands > most + more)
    problems.push(`${kind(stands, least, most + more)}: the effect happened ${happened} times and was undone ${back} times`);
  if (back > undos) problems.push(`duplicate: the effect was undone ${back} times in ${undos} undos`);
  if (!effect.emits)
    return events + commands > 0 ? [...problems, "invented: the effect emits no message, but its outcome was reported"] : problems;
  // Each record of an effect is reported once. A repeatable effect may have happened more often than it was recorded.
  const skipped = verdict.expected.effects.get(effect.at)?.skipped ? 1 : 0;
  // An effect without an undo that a cancel interrupted is not repeated to record it.
  const isLeft = effect.stays && undos > 0 && (effect.class === "keyed" || isNatural);
  const isUntold = more > 0 || verdict.cut || verdict.stopped || isLeft;
  const byHand = verdict.stopped && verdict.skips ? 1 : 0;
  const [fewest, mostTold] = skipped ? [back + 1, back + 1] : isUntold ? [back + least, back + most + byHand] : [happened, happened];
  if (events < fewest || events > mostTold)
    problems.push(`${kind(events, fewest, mostTold)}: ${events} events for ${happened} executions, ${back} of them undone`);
  if (commands !== Math.min(events, 1))
    problems.push(`${kind(commands, Math.min(events, 1), 1)}: ${commands} commands for ${events} events`);
  if (heard !== events) problems.push(`${kind(heard, events, events)}: ${heard} events delivered to the object, of ${events}`);
  return problems;
}

const kind = (count: number, least: number, most: number): Kind => (count < least ? "lost" : most > 0 ? "duplicate" : "invented");

/** The required and the permitted number of remaining effects. */
function standing(effect: Effect, { ended, expected, before, cut }: Verdict): [least: number, most: number] {
  const own: Expected | undefined = expected.effects.get(effect.at);
  // An undo leaves an effect unchanged that failed without a record.
  const unrecorded = cut && (effect.class === "keyed" || effect.class === "natural") ? 1 : 0;
  if (ended === "complete" || effect.stays) {
    const stayed = effect.stays && (cut || before.some(({ effects }) => effects.has(effect.at))) ? 1 : 0;
    return [own?.least ?? 0, own ? 1 : Math.max(stayed, unrecorded)];
  }
  return [0, unrecorded];
}

/** Effects that were not undone in reverse order; `back`: the undos in order. */
export function misordered(back: readonly string[], { order }: Expectation): string[] {
  const backAt = new Map(back.map((at, index) => [at, index]));
  return order.flatMap(([earlier, later]) => {
    const [first, second] = [backAt.get(earlier), backAt.get(later)];
    return first !== undefined && second !== undefined && first < second ? [`${earlier} was undone before ${later}`] : [];
  });
}
