import { inject } from "vitest";
import type { StepsOfAll } from "./steps-of-all.ts";

declare module "vitest" {
  interface TaskMeta {
    /** A passed test's report of its run, as one line: see test/gate/times.ts. */
    said?: string;
  }
  interface ProvidedContext {
    /**
     * The options of the random tests: see vitest.config.ts. The number of concurrent runs; the maximum of findings; the time for a run to
     * converge; the error of the Workers' clock, while the database's clock is right; the number of cells; `without`: cases with this text in their JSON are
     * excluded; `steps`: the kind of all guarded steps.
     */
    proof: {
      seed: number;
      seconds: number;
      lanes: number;
      shrinkSeconds: number;
      patienceSeconds: number;
      finds: number;
      clockMs: number;
      cells: number;
      without: string;
      steps: StepsOfAll;
      whole: boolean;
    };
  }
}

/** The seed, the duration, the time for a run to converge, and whether every fault is tested. */
export const asked = inject("proof");

/** The timeout for everything to end once the faults are over. */
export const PATIENCE_MS = asked.patienceSeconds * 1000;

/** Runs tasks while there are any, this number concurrently. */
export async function sideBySide(lanes: number, work: () => Promise<boolean>): Promise<void> {
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (await work());
    }),
  );
}
