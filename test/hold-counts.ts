import { holdCounts } from "millrace/testing";
import { loadRoutes } from "../packages/millrace/src/http/lazy-routes.ts";

holdCounts();
// Several tests begin with requests at once, which vitest would let wait for one import.
await loadRoutes();
