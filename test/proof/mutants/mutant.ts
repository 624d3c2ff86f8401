/** Where a bug sits. */
export const AREAS = [
  "guard",
  "lean",
  "recorder",
  "intake",
  "signals",
  "messages",
  "keeper",
  "operators",
  "tenants",
  "retention",
  "schedules",
  "ledger",
  "budget",
  "webhooks",
  "batches",
  "brand",
  "door",
  "ends",
] as const;
export type Area = (typeof AREAS)[number];

/** What finds a bug: the random programs; every single fault; or a test of its own, where no program comes by it. */
export type Killer = "random" | "sweep" | `test/${string}.test.ts`;

/** One text instead of another, in one file. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly put: string;
}

/** A bug that somebody could make, and that breaks a promise. */
export interface Mutant extends Edit {
  /** What is wrong then. */
  readonly name: string;
  readonly area: Area;
  readonly killedBy: Killer;
  /** The name of another mutant: as long as that guard stands, this bug does no harm. Both together do. */
  readonly masked?: string;
}

/** The mutants of an area, each named by what is wrong then. */
export function mutantsOf(area: Area, named: Record<string, Omit<Mutant, "name" | "area">>): Mutant[] {
  return Object.entries(named).map(([name, mutant]) => ({ name, area, ...mutant }));
}

/** A file's text with the bug in it. Throws unless what it replaces stands there exactly once. */
export function mutated(text: string, { file, find, put }: Edit): string {
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`${file} holds this text ${count} times, not once:\n${find}`);
  return text.replace(find, () => put);
}
