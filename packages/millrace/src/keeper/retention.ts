import type { EngineEnv } from "../contract/bindings.ts";
import { FAILED, SETTLED } from "../store/instances/status.ts";
import { ENDED_DAYS, FAILED_DAYS, STATED_DAYS, TOMBSTONE_DAYS } from "../store/kept-days.ts";
import type { Catalog } from "../topology/catalog.ts";
import { forgetOpenLetters } from "./forget-letters.ts";
import { pruneStated, pruneStreams, pruneTombstones } from "./prune-hashes.ts";
import { pruneInstances } from "./prune-instances.ts";
import { pruneObjects } from "./prune-objects.ts";
import { giveUpOutbox } from "./prune-outbox.ts";
import {
  pruneActions,
  pruneAlerts,
  pruneBulkActions,
  pruneDivergences,
  pruneFailures,
  pruneFences,
  pruneHours,
  pruneMinutes,
  pruneScheduleRuns,
  pruneSettledLetters,
  pruneSignals,
  pruneTokens,
} from "./prune-rows.ts";
import type { Retention, Slice } from "./rule.ts";

/** Retention of open dead letters. */
export const OPEN_LETTER_DAYS = 90;

/**
 * The engine's retention rules. All data except instances in progress (accepted, queued, running, waiting or in doubt) has a maximum age. A
 * key would run again after its instance and its tombstone are removed: by then no stored message can repeat it. The catalog's `onSkipped`
 * provides messages about removed open dead letters. See docs/retention.md, which a test compares with this table.
 */
export const engineRetention = (catalog?: Catalog): readonly Retention[] => [
  // A queue keeps a message for 14 days at most, and its dead-letter queue for 14 more.
  rule({ name: "instances ended", keepDays: ENDED_DAYS, prune: pruneInstances(SETTLED) }),
  rule({ name: "instances failed", keepDays: FAILED_DAYS, prune: pruneInstances(FAILED) }),
  rule({ name: "outbox", keepDays: 14, prune: giveUpOutbox }),
  rule({ name: "dead letters settled", keepDays: 30, prune: pruneSettledLetters }),
  rule({ name: "dead letters open", keepDays: OPEN_LETTER_DAYS, prune: (env, keepMs) => forgetOpenLetters(env, catalog, keepMs) }),
  // Tombstones remain longer than senders with their own outbox keep messages and may send them again. This retention starts after the
  // instance's own 30 days.
  rule({ name: "tombstones", keepDays: TOMBSTONE_DAYS, everyHours: 24 * 7, prune: pruneTombstones }),
  // The records of events' keys are kept as long as an instance and its tombstone together: repeats of events are detected as long as
  // repeats of commands.
  rule({ name: "stated events", keepDays: STATED_DAYS, everyHours: 24 * 7, prune: pruneStated }),
  // After the removal of a stream, the sender's next message counts as a gap.
  rule({ name: "streams", keepDays: 400, everyHours: 24 * 7, prune: pruneStreams }),
  // Rates need the last day by minute; a workflow's monthly cost needs the last month by hour.
  rule({ name: "counts of minutes", keepDays: 2, prune: pruneMinutes }),
  rule({ name: "counts of hours", keepDays: 35, prune: pruneHours }),
  // The rules below read a whole table, or list a whole bucket: an index would cost more than one scan a day.
  rule({ name: "signals", keepDays: 30, everyHours: 24, prune: pruneSignals }),
  rule({ name: "actions", keepDays: 400, everyHours: 24, prune: pruneActions }),
  rule({ name: "bulk actions ended", keepDays: 90, everyHours: 24, prune: pruneBulkActions }),
  rule({ name: "schedule runs", keepDays: 90, everyHours: 24, prune: pruneScheduleRuns }),
  rule({ name: "tokens expired", keepDays: 30, everyHours: 24, prune: pruneTokens }),
  rule({ name: "alerts resolved", keepDays: 30, everyHours: 24, prune: pruneAlerts }),
  rule({ name: "fences of locks", keepDays: 30, everyHours: 24, prune: pruneFences }),
  // Records of failed deliveries are kept as long as a queue keeps its messages.
  rule({ name: "failed deliveries", keepDays: 14, everyHours: 24, prune: pruneFailures }),
  rule({ name: "divergences ended", keepDays: 30, everyHours: 24, prune: pruneDivergences }),
  rule({ name: "payloads and outputs", keepDays: 45, everyHours: 24, prune: pruneObjects }),
];

function rule(
  own: Omit<Retention, "prune"> & { prune: (env: EngineEnv, keepMs: number, from: string | null) => Promise<number | Slice> },
): Retention {
  return { ...own, prune: (env, keepMs, from) => own.prune(env as unknown as EngineEnv, keepMs, from) };
}
