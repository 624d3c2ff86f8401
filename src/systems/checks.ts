import type { Check } from "millrace/worker";
import { batchCheck } from "./batches/checks.ts";
import { factCheck } from "./facts/reconcile.ts";

/** What the app's own records are held against. The engine has its own list: packages/millrace/src/reconcile/checks.ts. */
export const checks: readonly Check[] = [factCheck, batchCheck];
