import type { Check } from "millrace/worker";
import { batchCheck } from "./batches/checks.ts";
import { factCheck } from "./facts/reconcile.ts";

/** The app's own consistency checks. The engine's own checks are listed in packages/millrace/src/reconcile/walk.ts. */
export const checks: readonly Check[] = [factCheck, batchCheck];
