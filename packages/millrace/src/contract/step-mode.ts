import { MillraceError } from "./errors.ts";

/**
 * How the first attempt at a guarded step is made. `platform`: as a step of the platform's, which is billed, and shown by its dashboard.
 * `lean`: by the pass itself, and remembered by the inbox alone; from the second attempt on it is a step of the platform's, where waiting
 * costs nothing.
 */
export type StepMode = "platform" | "lean";

/** Errors: `config_invalid` for a word that is none. */
export function assertStepMode(mode: string | undefined, whose: string): void {
  if (mode === undefined || mode === "platform" || mode === "lean") return;
  throw new MillraceError("config_invalid", `${whose} says steps: "${mode}": it is "platform" or "lean".`);
}
