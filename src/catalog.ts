import { type Catalog, catalog } from "millrace/worker";
import { routes } from "./consumers/routes.ts";
import { skippedLetterFact } from "./derive/skipped-letter.ts";
import { confirmFacts } from "./objects/ledgers.ts";
import * as workflows from "./workflows/index.ts";

/** Everything this deployment knows: its workflows and what follows from what. A new chain adds its workflow to workflows/index.ts and its class to worker.ts. */
export const app: Catalog = catalog({
  workflows: Object.values(workflows),
  routes,
  onConfirmed: confirmFacts,
  onSkipped: skippedLetterFact,
});
