import { inject } from "vitest";
import type { StepsOfAll } from "./steps-of-all.ts";

declare module "vitest" {
  interface TaskMeta {
    /** What a test says of its run also where it has passed: one line. See test/gate/times.ts. */
    said?: string;
  }
  interface ProvidedContext {
    /**
     * What the proof was asked for: see vitest.config.ts. So many runs are on trial at a time; it ends with so many finds; a run has so
     * long to converge; the clock of the Workers is wrong by so much, that of the database is not; `without`: cases whose JSON has this in
     * it are left out; `steps`: how all guarded steps are taken.
     */
    proof: {
      seed: number;
      seconds: number;
      lanes: number;
      shrinkSeconds: number;
      patienceSeconds: number;
      finds: number;
      clockMs: number;
      without: string;
      steps: StepsOfAll;
      whole: boolean;
    };
  }
}

/** Which seed, for how long, how long a run may take to converge, and whether every fault is tried. */
export const asked = inject("proof");

/** How long everything may take to come to its end once the faults are over. */
export const PATIENCE_MS = asked.patienceSeconds * 1000;

/** Does some work for as long as it is given any, so many at a time. */
export async function sideBySide(lanes: number, work: () => Promise<boolean>): Promise<void> {
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (await work());
    }),
  );
}
