import { holdCounts } from "millrace/testing";
import { loadRoutes } from "../packages/millrace/src/http/lazy-routes.ts";

holdCounts();
// Several tests start with concurrent requests, which vitest would delay until one import is complete.
await loadRoutes();
