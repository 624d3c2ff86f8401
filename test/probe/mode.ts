import type { StepMode } from "millrace";

/** How the runs of the probe and of the lab make the first attempts at their steps, from now on. */
export const mode: { steps: StepMode } = { steps: "platform" };
