import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vitest/config";

const FILE = join(import.meta.dirname, "../packages/millrace/src/guard/step.ts");
/** How long the platform lets an attempt hang beyond its own time-out, as it is deployed and as the engine's tests have it. */
const MARGIN = { deployed: "const RECORDING_MARGIN_MS = 15_000;", here: "const RECORDING_MARGIN_MS = 5_000;" };

/**
 * Gives an attempt that hangs up after five seconds instead of fifteen: twenty tests wait for that, and for nothing else. How long it is
 * decides when they end and never how. Throws at once when the source says it in other words.
 */
export function shorterWaits(): Plugin {
  const shortened = (text: string) => {
    if (!text.includes(MARGIN.deployed))
      throw new Error(`${FILE} does not say "${MARGIN.deployed}", which test/shorter-waits.ts shortens.`);
    return text.replace(MARGIN.deployed, MARGIN.here);
  };
  shortened(readFileSync(FILE, "utf8"));
  return {
    name: "shorter-waits",
    enforce: "pre",
    transform: (code, id) => (id.split("?")[0] === FILE ? { code: shortened(code), map: null } : undefined),
  };
}
