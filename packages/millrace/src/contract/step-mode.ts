import { MillraceError } from "./errors.ts";

/**
 * The execution of a guarded step's first attempt. `platform`: as a step of the platform, which is billed and appears in the platform's
 * dashboard. `lean`: inline, within the replay, recorded only in the inbox; from the second attempt on, the attempts are steps of the
 * platform, which can wait without cost.
 */
export type StepMode = "platform" | "lean";

/** Validates the mode of a step. Errors: `config_invalid` for an unknown mode. */
export function assertStepMode(mode: string | undefined, whose: string): void {
  if (mode === undefined || mode === "platform" || mode === "lean") return;
  throw new MillraceError("config_invalid", `${whose}: "steps" must be "platform" or "lean", not "${mode}".`);
}
