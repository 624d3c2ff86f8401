import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vitest/config";

const FILE = join(import.meta.dirname, "../packages/millrace/src/guard/step.ts");
/** How long the platform lets an attempt hang beyond its own timeout, as deployed and in the engine's tests. */
const MARGIN = { deployed: "const RECORDING_MARGIN_MS = 15_000;", here: "const RECORDING_MARGIN_MS = 5_000;" };

/**
 * Ends a hanging attempt after 5 s instead of 15 s: twenty tests wait for that. The margin decides when they end, not how. Errors: at once
 * if the source has a different text.
 */
export function shorterWaits(): Plugin {
  const shortened = (text: string) => {
    if (!text.includes(MARGIN.deployed))
      throw new Error(`${FILE} does not contain "${MARGIN.deployed}", which test/shorter-waits.ts shortens.`);
    return text.replace(MARGIN.deployed, MARGIN.here);
  };
  shortened(readFileSync(FILE, "utf8"));
  return {
    name: "shorter-waits",
    enforce: "pre",
    transform: (code, id) => (id.split("?")[0] === FILE ? { code: shortened(code), map: null } : undefined),
  };
}
