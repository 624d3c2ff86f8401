import { mutantsOf } from "./mutant.ts";

/** Wrong statuses of articles and research in a brand's agent, and targets that are mixed up. */
export const BRANDS = mutantsOf("brand", {
  "research that failed, and then was retried and done, still counts as failed": {
    file: "src/systems/brand/state.ts",
    find: "WHERE instance_id = ? AND state IN ('to_send', 'sent', 'failed')",
    put: "WHERE instance_id = ? AND state IN ('to_send', 'sent')",
    killedBy: "test/systems/brand/audit.test.ts",
  },
  "an article with a page on one of two sites counts as unpublished": {
    file: "src/systems/brand/state.ts",
    find: "iif(max(live) = 1, 'live', 'unpublished')",
    put: "iif(min(live) = 1, 'live', 'unpublished')",
    killedBy: "test/systems/brand/agent.test.ts",
  },
  "a post on X with an unknown outcome is created again": {
    file: "src/steps/announce.ts",
    find: 'effect: "once"',
    put: 'effect: "natural"',
    killedBy: "test/systems/content/targets.test.ts",
  },
  "two tenants have the same secret": {
    file: "src/providers/target-secret.ts",
    find: "encoded(tenantId)",
    put: "encoded(secret)",
    killedBy: "test/providers/targets.test.ts",
  },
});
