import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

/** The environment variable with the file to which a run of vitest writes its durations. */
export const TIMES_FILE = "MILLRACE_TIMES_FILE";

/** The file with the last durations of all test files. */
export const LAST_TIMES = join(ROOT, ".millrace/test-times.json");

/** The duration of one test file, including its start. */
export interface Took {
  /** The path from the root of the repository. */
  file: string;
  ms: number;
  tests: number;
}

/** The durations that were written to a file; empty if there is no such file. */
export function readTimes(file: string): Took[] {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return [];
  }
}

/** Adds durations to those of other files that were written before. */
export function writeTimes(file: string, took: readonly Took[]): void {
  const known = new Map([...readTimes(file), ...took].map((one) => [one.file, one]));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify([...known.values()]));
}
