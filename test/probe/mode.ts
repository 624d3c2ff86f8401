/** The step mode of all runs of `probe` and `lab` that begin from now on. */
export const mode: { steps: "platform" | "inline" } = { steps: "platform" };
