import { MAX_COUNTED } from "../store/health.ts";
import type { AlertRule } from "./rule.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Milliseconds between two notices of a continuing alert. */
const REPEAT_MS = 4 * HOUR_MS;
/** Milliseconds for which a bound must not be exceeded before the alert is resolved: twelve rounds of the keeper. */
const CLEAR_MS = 2 * MINUTE_MS;
const DAY_S = 86_400;

/** The name of the gauge of dead letters that arrived in the last five minutes. */
export const LETTERS_ARRIVED = "dead_letters_arrived";
export const INSTANCES_ERRORED = "instances_errored";
/** The gauge of dead letters that an operator has escalated: one sample for each dead letter. */
export const LETTERS_ESCALATED = "dead_letters_escalated";
/** The rule about escalated dead letters. */
export const LETTER_ESCALATED = "dead_letter_escalated";
/** The gauge of workflows that a breaker has paused. The value is the number of tenants. */
export const WORKFLOWS_TRIPPED = "workflows_tripped";
/** Seconds by which the keeper's round was late, or by which the interval since the last round exceeded its period. */
export const KEEPER_LATE = "keeper_late_seconds";

/** The rule about cells that do not answer. */
export const CELL_UNAVAILABLE = "cell_unavailable";

const RULES: readonly Omit<AlertRule, "repeatMs" | "clearMs">[] = [
  {
    name: "dead_letter_arrived",
    gauge: LETTERS_ARRIVED,
    per: ["queue", "reason"],
    warning: { above: 0, forMs: 0 },
    meaning:
      "Messages have become dead letters, because no consumer could process them. Resolved means that no more arrived, not that they are settled.",
    doc: "docs/operating.md#dead-letters",
  },
  {
    name: LETTER_ESCALATED,
    gauge: LETTERS_ESCALATED,
    per: ["dead_letter", "queue", "reason"],
    warning: { above: 0, forMs: 0 },
    meaning: "An operator has escalated a dead letter.",
    doc: "docs/operating.md#escalate",
  },
  {
    name: "instances_errored",
    gauge: INSTANCES_ERRORED,
    per: ["workflow", "code"],
    warning: { above: 0, forMs: 0 },
    critical: { above: 100, forMs: 0 },
    meaning: "Instances have failed. Resolved means that no more failed, not that these are fixed: errored_depth counts those.",
    doc: "docs/operating.md",
  },
  {
    name: "errored_depth",
    gauge: "instances_errored_open",
    per: ["workflow"],
    // The rule `errored_depth` raises an alert for instances that remain errored. A separate rule raises an alert at once when an instance
    // fails.
    warning: { above: 0, forMs: 15 * MINUTE_MS },
    critical: { above: 1000, forMs: 15 * MINUTE_MS },
    most: MAX_COUNTED,
    meaning: "Errored instances wait for an operator to retry, undo or close them.",
    doc: "docs/operating.md#retry-what-failed",
  },
  {
    name: "breaker_tripped",
    gauge: WORKFLOWS_TRIPPED,
    per: ["workflow"],
    critical: { above: 0, forMs: 0 },
    meaning: "A breaker has paused a workflow after repeated failures of one cause: it starts no instance until an operator resumes it.",
    doc: "docs/queues.md#pause",
  },
  {
    name: "dlq_depth",
    gauge: "dead_letters_open",
    per: ["queue"],
    // The rule `dlq_depth` raises an alert for dead letters that remain open. A separate rule raises an alert at once when a dead letter
    // arrives.
    warning: { above: 0, forMs: 15 * MINUTE_MS },
    critical: { above: 100, forMs: 0 },
    meaning: "Dead letters wait for an operator to replay or skip them.",
    doc: "docs/operating.md#dead-letters",
  },
  {
    name: "queue_depth",
    gauge: "queue_depth",
    per: ["queue"],
    warning: { above: 10_000, forMs: 5 * MINUTE_MS },
    critical: { above: 100_000, forMs: MINUTE_MS },
    meaning: "A queue's messages arrive faster than its consumer processes them.",
    doc: "docs/queues.md",
  },
  {
    name: "processing_p99",
    gauge: "queue_processing_p99_seconds",
    per: ["queue"],
    across: "max",
    warning: { above: 10, forMs: 5 * MINUTE_MS },
    critical: { above: 60, forMs: MINUTE_MS },
    meaning: "One batch in a hundred takes longer than the bound.",
    doc: "docs/queues.md",
  },
  {
    name: "retry_ratio",
    gauge: "queue_retry_ratio",
    per: ["queue"],
    across: "max",
    warning: { above: 0.05, forMs: 5 * MINUTE_MS },
    critical: { above: 0.2, forMs: 2 * MINUTE_MS },
    most: 1,
    meaning: "The share of retried deliveries of a queue is too high.",
    doc: "docs/queues.md",
  },
  {
    name: "backlog_age",
    gauge: "queue_oldest_seconds",
    per: ["queue"],
    across: "max",
    warning: { above: 2 * DAY_S, forMs: 5 * MINUTE_MS },
    critical: { above: 3 * DAY_S, forMs: 0 },
    meaning: "A message is close to the retention of its queue (4 days); then the platform drops it.",
    doc: "docs/queues.md",
  },
  {
    name: "effects_in_doubt",
    gauge: "effects_in_doubt",
    per: [],
    warning: { above: 0, forMs: 0 },
    most: MAX_COUNTED,
    meaning: "The outcome of an effect is unknown, or it happened and its rows were refused. Check it, then confirm or reject it.",
    doc: "docs/operating.md",
  },
  {
    name: "instances_overdue",
    gauge: "instances_overdue",
    per: ["workflow"],
    warning: { above: 0, forMs: 0 },
    critical: { above: 1000, forMs: 0 },
    most: MAX_COUNTED,
    meaning: "Instances have passed their deadlines. Decide about each one.",
    doc: "docs/operating.md#deadlines",
  },
  {
    name: "version_missing",
    gauge: "instances_without_version",
    per: ["workflow", "version"],
    // A deployment replaces the keeper's code within 300 s. Until then, new instances can have a version that the keeper does not know.
    warning: { above: 0, forMs: 5 * MINUTE_MS },
    most: MAX_COUNTED,
    meaning: "The deployed code lacks the version of open instances. Deploy it in `previous`.",
    doc: "docs/deploying.md#change-a-workflow",
  },
  {
    name: "approvals_waiting",
    gauge: "approvals_waiting",
    per: ["workflow"],
    warning: { above: 0, forMs: 15 * MINUTE_MS },
    most: MAX_COUNTED,
    meaning: "Instances wait for answers to their questions.",
    doc: "docs/operating.md#answer-questions",
  },
  {
    name: "approvals_pressing",
    gauge: "approvals_pressing",
    per: ["workflow"],
    critical: { above: 0, forMs: 0 },
    most: MAX_COUNTED,
    meaning: "Questions will soon time out; then each gets its default answer.",
    doc: "docs/operating.md#answer-questions",
  },
  {
    name: "instances_unchecked",
    gauge: "instances_unchecked",
    per: [],
    warning: { above: 0, forMs: 5 * MINUTE_MS },
    critical: { above: 1000, forMs: 5 * MINUTE_MS },
    most: 2 * MAX_COUNTED,
    meaning: "Instances are due for the keeper's check, and it has not checked them.",
    doc: "docs/operating.md",
  },
  {
    name: "lanes_blocked",
    gauge: "lanes_blocked",
    per: ["lane"],
    warning: { above: 0, forMs: MINUTE_MS },
    meaning: "Lanes are blocked, and all messages behind their heads wait.",
    doc: "docs/turns.md",
  },
  {
    name: "projection_lag",
    gauge: "projection_lag_seconds",
    per: ["projection"],
    across: "max",
    warning: { above: 30, forMs: 2 * MINUTE_MS },
    critical: { above: 300, forMs: 2 * MINUTE_MS },
    meaning: "A projection lags behind its ledgers: reads return old data.",
    doc: "docs/facts.md",
  },
  {
    name: "outbox_unconfirmed",
    gauge: "outbox_unconfirmed",
    per: [],
    warning: { above: 1000, forMs: 10 * MINUTE_MS },
    critical: { above: 9000, forMs: 10 * MINUTE_MS },
    most: MAX_COUNTED,
    meaning: "Committed messages are sent repeatedly, and no consumer confirms them.",
    doc: "docs/how-it-works.md",
  },
  {
    name: "outbox_refused",
    gauge: "outbox_refused",
    per: [],
    warning: { above: 0, forMs: 5 * MINUTE_MS },
    most: MAX_COUNTED,
    meaning: "A queue refuses committed messages: its binding is missing, or the platform has an outage.",
    doc: "docs/how-it-works.md",
  },
  {
    name: "schedules_overdue",
    gauge: "schedules_overdue_seconds",
    per: [],
    across: "max",
    warning: { above: 120, forMs: MINUTE_MS },
    critical: { above: 900, forMs: MINUTE_MS },
    meaning: "Schedules are due and have not started.",
    doc: "docs/schedules.md",
  },
  {
    name: "keeper_late",
    gauge: KEEPER_LATE,
    per: [],
    across: "max",
    warning: { above: 60, forMs: 0 },
    critical: { above: 600, forMs: 0 },
    meaning: "The keeper's round was late. Until then no repair ran and no alert was raised.",
    doc: "docs/alerts.md",
  },
  {
    name: CELL_UNAVAILABLE,
    gauge: "cells_unavailable",
    per: ["cell"],
    critical: { above: 0, forMs: MINUTE_MS },
    most: 1,
    meaning: "The database or the keeper of a cell does not answer. Until then no alert of another rule ends.",
    doc: "docs/cells.md",
  },
  {
    name: "object_size",
    gauge: "object_bytes",
    per: ["binding"],
    across: "max",
    warning: { above: 8_000_000_000, forMs: 0 },
    critical: { above: 9_500_000_000, forMs: 0 },
    meaning: "A Durable Object nears its limit of 10 GB.",
    doc: "docs/platform-limits.md",
  },
  {
    name: "divergences",
    gauge: "divergences",
    per: ["kind"],
    warning: { above: 0, forMs: 0 },
    most: MAX_COUNTED,
    meaning: "The database, the platform and the objects have different records.",
    doc: "docs/operating.md",
  },
];

/** The default rules. A test verifies that the table in docs/alerts.md contains the same rules. */
export const ALERT_RULES: readonly AlertRule[] = RULES.map((rule) => ({ ...rule, repeatMs: REPEAT_MS, clearMs: CLEAR_MS }));
