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
 * The engine's retention rules. All data except instances in progress (accepted, queued, running, waiting or in doubt) has a maximum age.
 * After the removal of an instance and its tombstone, a message with the same key would start a new instance. By that time, no queue or
 * outbox can still contain such a message. The catalog's `onSkipped` provides messages about removed open dead letters. See
 * docs/retention.md, which a test compares with this table.
 */
export const engineRetention = (catalog?: Catalog): readonly Retention[] => [
  // A queue keeps a message for at most 14 days, and the dead-letter queue keeps the message for at most 14 further days.
  rule({ name: "instances ended", keepDays: ENDED_DAYS, prune: pruneInstances(SETTLED) }),
  rule({ name: "instances failed", keepDays: FAILED_DAYS, prune: pruneInstances(FAILED) }),
  rule({ name: "outbox", keepDays: 14, prune: giveUpOutbox }),
  rule({ name: "dead letters settled", keepDays: 30, prune: pruneSettledLetters }),
  rule({ name: "dead letters open", keepDays: OPEN_LETTER_DAYS, prune: (env, keepMs) => forgetOpenLetters(env, catalog, keepMs) }),
  // A sender with its own outbox keeps messages, and may send a message again. Tombstones remain for a longer time than such senders keep
  // messages. The retention of a tombstone starts when the retention of the instance ends, after 30 days.
  rule({ name: "tombstones", keepDays: TOMBSTONE_DAYS, everyHours: 24 * 7, prune: pruneTombstones }),
  // The record of an event's key is kept as long as an instance and its tombstone together. Therefore repeats of events are detected for
  // the same time as repeats of commands.
  rule({ name: "stated events", keepDays: STATED_DAYS, everyHours: 24 * 7, prune: pruneStated }),
  // After the removal of a stream, the sender's next message counts as a gap.
  rule({ name: "streams", keepDays: 400, everyHours: 24 * 7, prune: pruneStreams }),
  // Rates need the counts per minute of the last day. A workflow's monthly cost needs the counts per hour of the last month.
  rule({ name: "counts of minutes", keepDays: 2, prune: pruneMinutes }),
  rule({ name: "counts of hours", keepDays: 35, prune: pruneHours }),
  // Each of the following rules reads a whole table or lists a whole bucket, because an index would cost more than one scan a day.
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
