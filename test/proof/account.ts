// Holds the accounts of a run against what the model wants: figures alone, nothing of the engine.
import type { Effect, Expectation, Expected } from "./model.ts";
import type { Trace } from "./program.ts";

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
  if (stands < least || stands > most + more) problems.push(`happened ${happened} times and was taken back ${back} times`);
  if (back > undos) problems.push(`taken back ${back} times in ${undos} undos`);
  if (!effect.emits) return events + commands > 0 ? [...problems, "was told, and says nothing"] : problems;
  // Each record of it is told once. What may repeat may have happened more often than it was recorded.
  const [fewest, mostTold] = more > 0 || verdict.cut ? [back + least, back + most] : [happened, happened];
  if (events < fewest || events > mostTold) problems.push(`${events} events for ${happened} times, ${back} of them taken back`);
  if (commands !== Math.min(events, 1)) problems.push(`${commands} commands for ${events} events`);
  if (heard !== events) problems.push(`${heard} events told to the object, of ${events}`);
  return problems;
}

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

/** Effects that were not taken back in the reverse order. Of commits nobody outside knows when. */
export function misordered(happened: readonly string[], { order }: Expectation): string[] {
  const backAt = new Map(happened.map((subject, index) => [subject, index]));
  return order.flatMap(([earlier, later]) => {
    const [first, second] = [backAt.get(`${earlier}/back`), backAt.get(`${later}/back`)];
    return first !== undefined && second !== undefined && first < second ? [`${earlier} was taken back before ${later}`] : [];
  });
}
