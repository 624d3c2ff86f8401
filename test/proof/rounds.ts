import type { Stage } from "./stage.ts";

const ROUND_MS = 600;

let roundAt = 0;

/** The keeper's scans, for all tested runs. */
export async function rounds(stage: Stage): Promise<void> {
  if (Date.now() - roundAt < ROUND_MS) return;
  roundAt = Date.now();
  await stage.round().catch(() => undefined);
}
