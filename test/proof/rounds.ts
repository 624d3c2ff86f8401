import type { Stage } from "./stage.ts";

const ROUND_MS = 600;

let roundAt = 0;

/** The keeper's rounds, for all runs that are on trial. */
export async function rounds(stage: Stage): Promise<void> {
  if (Date.now() - roundAt < ROUND_MS) return;
  roundAt = Date.now();
  await stage.round().catch(() => undefined);
}
