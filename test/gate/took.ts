import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

/** The variable that names the file to which a run of vitest writes its times. */
export const TIMES_FILE = "MILLRACE_TIMES_FILE";

/** Where the gate remembers the times of all files. */
export const LAST_TIMES = join(ROOT, ".millrace/test-times.json");

/** How long one file of tests took, its start included. */
export interface Took {
  /** From the root of the repository. */
  file: string;
  ms: number;
  tests: number;
}

/** The times that were written to a file; none if there is no such file. */
export function readTimes(file: string): Took[] {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return [];
  }
}

/** Writes times beside those of other files that are there already. */
export function writeTimes(file: string, took: readonly Took[]): void {
  const known = new Map([...readTimes(file), ...took].map((one) => [one.file, one]));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify([...known.values()]));
}
