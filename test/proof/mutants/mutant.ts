/** The area of a bug. */
export const AREAS = [
  "guard",
  "inline",
  "recorder",
  "intake",
  "flow",
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

/** The detector of a bug: the random programs; every single fault; or a separate test, if no program reaches it. */
export type Killer = "random" | "sweep" | `test/${string}.test.ts`;

/** A replacement of one text by another, in one file. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly put: string;
}

/** A plausible bug that breaks a guarantee. */
export interface Mutant extends Edit {
  /** The symptom. */
  readonly name: string;
  readonly area: Area;
  readonly killedBy: Killer;
  /** The name of another mutant: while that guard exists, this bug has no effect. Both together break the guarantee. */
  readonly masked?: string;
}

/** The mutants of an area, each named by its symptom. */
export function mutantsOf(area: Area, named: Record<string, Omit<Mutant, "name" | "area">>): Mutant[] {
  return Object.entries(named).map(([name, mutant]) => ({ name, area, ...mutant }));
}

/** A file's text with the bug in it. Throws unless the replaced text occurs there exactly once. */
export function mutated(text: string, { file, find, put }: Edit): string {
  const count = text.split(find).length - 1;
  if (count !== 1) throw new Error(`${file} contains this text ${count} times, not once:\n${find}`);
  return text.replace(find, () => put);
}
