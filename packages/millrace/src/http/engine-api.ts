import type { alerts } from "./routes/alerts.ts";
import type { approvals } from "./routes/approvals.ts";
import type { audit } from "./routes/audit.ts";
import type { bulkActions } from "./routes/bulk-actions.ts";
import type { callbacks } from "./routes/callback-secret.ts";
import type { catalogRoutes } from "./routes/catalog.ts";
import type { causes } from "./routes/causes.ts";
import type { commands } from "./routes/commands.ts";
import type { correlations } from "./routes/correlations.ts";
import type { costs } from "./routes/costs.ts";
import type { deadLetters } from "./routes/dead-letters.ts";
import type { divergences } from "./routes/divergences.ts";
import type { effects } from "./routes/effects.ts";
import type { events } from "./routes/events.ts";
import type { instanceActs } from "./routes/instance-acts.ts";
import type { instances } from "./routes/instances.ts";
import type { keys } from "./routes/keys.ts";
import type { lanes } from "./routes/lanes.ts";
import type { limits } from "./routes/limits.ts";
import type { locks } from "./routes/locks.ts";
import type { metrics } from "./routes/metrics.ts";
import type { queues } from "./routes/queues.ts";
import type { schedules } from "./routes/schedules.ts";
import type { search } from "./routes/search.ts";
import type { settleLetters } from "./routes/settle-letters.ts";
import type { signIns } from "./routes/sign-in.ts";
import type { statedEvents } from "./routes/state-events.ts";
import type { steps } from "./routes/steps.ts";
import type { streamTokens } from "./routes/stream-tokens.ts";
import type { tokens } from "./routes/tokens.ts";
import type { workflows } from "./routes/workflows.ts";

/** The types for a client: requests and responses of the engine's routes, by path and method. */
export type EngineApi = ReturnType<
  | typeof callbacks
  | typeof commands
  | typeof statedEvents
  | typeof instances
  | typeof steps
  | typeof effects
  | typeof events
  | typeof causes
  | typeof catalogRoutes
  | typeof deadLetters
  | typeof settleLetters
  | typeof audit
  | typeof costs
  | typeof tokens
  | typeof signIns
  | typeof approvals
  | typeof bulkActions
  | typeof instanceActs
  | typeof schedules
  | typeof workflows
  | typeof limits
  | typeof locks
  | typeof lanes
  | typeof metrics
  | typeof queues
  | typeof alerts
  | typeof divergences
  | typeof search
  | typeof keys
  | typeof correlations
  | typeof streamTokens
>;
