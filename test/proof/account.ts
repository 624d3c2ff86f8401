// Holds the accounts of a run against what the model wants: figures alone, nothing of the engine.
import type { Effect, Expectation, Expected } from "./model.ts";
import type { Trace } from "./program.ts";

/** What is wrong: something happened too often, or is missing, or is there and nobody asked for it, or has not come to its end. */
const KINDS = ["duplicate", "lost", "invented", "stuck"] as const;
export type Kind = (typeof KINDS)[number];

/** The kind of a problem, which it names; what names none is something that should not be there. */
export const kindOf = (problem: string): Kind => KINDS.find((kind) => problem.includes(`${kind}: `)) ?? "invented";

/** Said of a run that was taken for stuck, and was late. */
export const IT_ENDED = "\n  It came to its end by itself, and that";
export const wasLate = (problem: string): boolean => problem.includes(IT_ENDED);

/** What a run has come to: its end, and what must have happened on the ways that it went. */
export interface Verdict {
  ended: "complete" | "terminated";
  /** What the code went by at last; of an undone run, what it had gone by. */
  expected: Expectation;
  trace: Trace;
  /** Earlier ways, which were taken back since: what stays of them stays. */
  before: readonly Expectation[];
  /** An operator had it undone in the midst of it, when not all that it had begun was recorded. */
  cut: boolean;
  /** A person has stopped it, or closed it, before its code came to its end: what was cut off may be on record, or not. */
  stopped?: boolean;
  /** People have skipped steps of it: what these say is told, though nothing happened. */
  skips?: boolean;
  /** Reasons of the letters that there must be. */
  letters: readonly string[];
}

/** What became of one effect: how often it happened, was taken back, and was told. */
export interface Account {
  happened: number;
  back: number;
  undos: number;
  /** How often a person wanted a doubtful effect done again, whether it had happened or not. */
  again: number;
  events: number;
  commands: number;
  heard: number;
}

/** Holds what happened of one effect against what must have. Once for each time that it was taken back, and once more if it stands. */
export function wrongWith(effect: Effect, { happened, back, undos, again, events, commands, heard }: Account, verdict: Verdict): string[] {
  const [least, most] = standing(effect, verdict);
  const isNatural = effect.class === "natural";
  const more = isNatural && most + back > 0 ? Number.POSITIVE_INFINITY : effect.class === "once" ? again : 0;
  const problems: string[] = [];
  const stands = happened - back;
  if (stands < least || stands > most + more)
    problems.push(`${kind(stands, least, most + more)}: happened ${happened} times and was taken back ${back} times`);
  if (back > undos) problems.push(`duplicate: taken back ${back} times in ${undos} undos`);
  if (!effect.emits) return events + commands > 0 ? [...problems, "invented: was told, and says nothing"] : problems;
  // Each record of it is told once. What may repeat may have happened more often than it was recorded.
  const skipped = verdict.expected.effects.get(effect.at)?.skipped ? 1 : 0;
  // One that has no way back, and that a cancel cut off, is not done once more to be recorded.
  const isLeft = effect.stays && undos > 0 && (effect.class === "keyed" || isNatural);
  const isUntold = more > 0 || verdict.cut || verdict.stopped || isLeft;
  const byHand = verdict.stopped && verdict.skips ? 1 : 0;
  const [fewest, mostTold] = skipped ? [back + 1, back + 1] : isUntold ? [back + least, back + most + byHand] : [happened, happened];
  if (events < fewest || events > mostTold)
    problems.push(`${kind(events, fewest, mostTold)}: ${events} events for ${happened} times, ${back} of them taken back`);
  if (commands !== Math.min(events, 1))
    problems.push(`${kind(commands, Math.min(events, 1), 1)}: ${commands} commands for ${events} events`);
  if (heard !== events) problems.push(`${kind(heard, events, events)}: ${heard} events told to the object, of ${events}`);
  return problems;
}

/** What it is to be too few or too many. */
const kind = (count: number, least: number, most: number): Kind => (count < least ? "lost" : most > 0 ? "duplicate" : "invented");

/** How often an effect must stand in the end, and may. */
function standing(effect: Effect, { ended, expected, before, cut }: Verdict): [least: number, most: number] {
  const own: Expected | undefined = expected.effects.get(effect.at);
  // What failed without a record is left alone by an undo.
  const unrecorded = cut && (effect.class === "keyed" || effect.class === "natural") ? 1 : 0;
  if (ended === "complete" || effect.stays) {
    const stayed = effect.stays && (cut || before.some(({ effects }) => effects.has(effect.at))) ? 1 : 0;
    return [own?.least ?? 0, own ? 1 : Math.max(stayed, unrecorded)];
  }
  return [0, unrecorded];
}

/** Effects that were not taken back in the reverse order; `back`: what was taken back, one after the other. */
export function misordered(back: readonly string[], { order }: Expectation): string[] {
  const backAt = new Map(back.map((at, index) => [at, index]));
  return order.flatMap(([earlier, later]) => {
    const [first, second] = [backAt.get(earlier), backAt.get(later)];
    return first !== undefined && second !== undefined && first < second ? [`${earlier} was taken back before ${later}`] : [];
  });
}
