import { BATCHES } from "./batches.ts";
import { BRANDS } from "./brand.ts";
import { BUDGETS } from "./budget.ts";
import { DOOR } from "./door.ts";
import { ENDS } from "./ends.ts";
import { FLOW } from "./flow.ts";
import { GUARD } from "./guard.ts";
import { INLINE_STEPS } from "./inline.ts";
import { INTAKE } from "./intake.ts";
import { KEEPER } from "./keeper.ts";
import { LEDGERS } from "./ledger.ts";
import { LEFT_OPEN } from "./left-open.ts";
import { MESSAGES } from "./messages.ts";
import type { Mutant } from "./mutant.ts";
import { OPERATORS } from "./operators.ts";
import { OVERTAKEN } from "./overtaken.ts";
import { RECORDER } from "./recorder.ts";
import { RETENTION } from "./retention.ts";
import { SCHEDULES } from "./schedules.ts";
import { SIGNALS } from "./signals.ts";
import { SKIPS } from "./skips.ts";
import { TENANTS } from "./tenants.ts";
import { WEBHOOKS } from "./webhooks.ts";

/** Bugs that must be detected, each named by its symptom. */
export const MUTANTS: readonly Mutant[] = [
  ...GUARD,
  ...INLINE_STEPS,
  ...OVERTAKEN,
  ...RECORDER,
  ...INTAKE,
  ...FLOW,
  ...SIGNALS,
  ...MESSAGES,
  ...KEEPER,
  ...OPERATORS,
  ...LEFT_OPEN,
  ...SKIPS,
  ...TENANTS,
  ...RETENTION,
  ...SCHEDULES,
  ...LEDGERS,
  ...BUDGETS,
  ...WEBHOOKS,
  ...BATCHES,
  ...BRANDS,
  ...DOOR,
  ...ENDS,
];
