import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

/** The variable that names the file to which a run of vitest writes its times. */
export const TIMES_FILE = "MILLRACE_TIMES_FILE";

/** How long one file of tests took, its start included. */
export interface Took {
  /** From the root of the repository. */
  file: string;
  ms: number;
  tests: number;
}

export interface Run {
  took: Took[];
}
