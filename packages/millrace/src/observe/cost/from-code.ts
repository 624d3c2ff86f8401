import type { StepMode } from "../../contract/step-mode.ts";
import type { Usage } from "./prices.ts";
import { ROWS } from "./written-rows.ts";

/** For each kind of step in a workflow's code: the number of steps that the platform bills, of inbox entries, and of rows for waits. */
const KINDS = {
  read: { steps: 1, entries: 0, rows: 0 },
  sleep: { steps: 1, entries: 0, rows: 0 },
  effect: { steps: 1, entries: 1, rows: ROWS.recorded },
  commit: { steps: 1, entries: 1, rows: ROWS.recorded },
  waitFor: { steps: 2, entries: 0, rows: ROWS.waitAsked + ROWS.waitSlept + ROWS.signal },
  approve: { steps: 2, entries: 0, rows: ROWS.questionAsked + ROWS.questionAnswered },
} as const;

/** Matches a step's call such as `step.commit(…`, also after a bundler has renamed `step`. */
const CALL = new RegExp(`\\.(${Object.keys(KINDS).join("|")})\\(\\s*["'\`]`, "g");

/**
 * The minimum usage of a run, estimated from the text of the workflow's code. Each step in the text is counted once. Loops, steps in other
 * functions, and the app's own rows and messages are unknown before a run. In an inline workflow an effect or a commit is no platform step.
 * Returns null if the text contains no steps.
 */
export function usageOfCode(code: string, mode: StepMode): (Usage & { readonly steps: number }) | null {
  const kinds = [...code.matchAll(CALL)].map(([, kind]) => KINDS[kind as keyof typeof KINDS]);
  if (kinds.length === 0) return null;
  const sum = (of: "steps" | "entries" | "rows") => kinds.reduce((total, kind) => total + kind[of], 0);
  const entries = sum("entries");
  const isLean = mode === "lean" && entries > 0;
  return {
    steps: sum("steps") - (isLean ? entries : 0),
    rows_written: ROWS.accepted + (entries > 0 ? ROWS.running : 0) + sum("rows") + ROWS.complete,
    queue_operations: 3,
    requests: 3,
    object_requests: entries + 1 + (isLean ? 1 : 0),
    log_lines: 2 + sum("steps"),
  };
}
