import { mutantsOf } from "./mutant.ts";

/** Wrong beliefs of a brand's agent about its work. */
export const BRANDS = mutantsOf("brand", {
  "research that was given up, then retried and done, counts as failed": {
    file: "src/systems/brand/state.ts",
    find: "WHERE instance_id = ? AND state IN ('to_send', 'sent', 'failed')",
    put: "WHERE instance_id = ? AND state IN ('to_send', 'sent')",
    killedBy: "test/systems/brand/audit.test.ts",
  },
});
