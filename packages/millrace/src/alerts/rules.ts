import { MAX_COUNTED } from "../store/health.ts";
import type { AlertRule } from "./rule.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Interval between notices of a continuing alert. */
const REPEAT_MS = 4 * HOUR_MS;
/** Time without exceeding the bound before an alert is resolved: twelve rounds of the keeper. */
const CLEAR_MS = 2 * MINUTE_MS;
const DAY_S = 86_400;

const usual = { repeatMs: REPEAT_MS, clearMs: CLEAR_MS } as const;

/** The gauges of events in the last five minutes. */
export const LETTERS_ARRIVED = "dead_letters_arrived";
export const INSTANCES_ERRORED = "instances_errored";
/** The gauge of letters that an operator has escalated: one sample for each. */
export const LETTERS_ESCALATED = "dead_letters_escalated";
/** The rule about them. */
export const LETTER_ESCALATED = "dead_letter_escalated";
/** Seconds by which the keeper's round was late, or by which the interval since the last round exceeded its period. */
export const KEEPER_LATE = "keeper_late_seconds";

/** The default rules. docs/alerts.md has the same table; a test compares them. */
export const ALERT_RULES: readonly AlertRule[] = [
  {
    name: "dead_letter_arrived",
    gauge: LETTERS_ARRIVED,
    per: ["queue", "reason"],
    warning: { above: 0, forMs: 0 },
    ...usual,
    meaning:
      "Messages have just become dead letters: no consumer could finish them. Resolved says that no more came, not that they are settled.",
    doc: "docs/operating.md#dead-letters",
  },
  {
    name: LETTER_ESCALATED,
    gauge: LETTERS_ESCALATED,
    per: ["dead_letter", "queue", "reason"],
    warning: { above: 0, forMs: 0 },
    ...usual,
    meaning: "Somebody has looked at a dead letter, and asks others to.",
    doc: "docs/operating.md#escalate",
  },
  {
    name: "instances_errored",
    gauge: INSTANCES_ERRORED,
    per: ["workflow", "code"],
    warning: { above: 0, forMs: 0 },
    critical: { above: 100, forMs: 0 },
    ...usual,
    meaning: "Instances have just failed. Resolved says that no more did, not that these are mended: errored_depth tells of those.",
    doc: "docs/operating.md",
  },
  {
    name: "errored_depth",
    gauge: "instances_errored_open",
    per: ["workflow"],
    // Failures are notified at once by another rule. This rule is about instances that remain errored.
    warning: { above: 0, forMs: 15 * MINUTE_MS },
    critical: { above: 1000, forMs: 15 * MINUTE_MS },
    most: MAX_COUNTED,
    ...usual,
    meaning: "Instances are errored, and wait for somebody who retries, undoes or closes them.",
    doc: "docs/operating.md#retry-what-failed",
  },
  {
    name: "dlq_depth",
    gauge: "dead_letters_open",
    per: ["queue"],
    // Arrivals are notified at once by another rule. This rule is about letters that remain open.
    warning: { above: 0, forMs: 15 * MINUTE_MS },
    critical: { above: 100, forMs: 0 },
    ...usual,
    meaning: "Dead letters wait for somebody who replays or skips them.",
    doc: "docs/operating.md#dead-letters",
  },
  {
    name: "queue_depth",
    gauge: "queue_depth",
    per: ["queue"],
    warning: { above: 10_000, forMs: 5 * MINUTE_MS },
    critical: { above: 100_000, forMs: MINUTE_MS },
    ...usual,
    meaning: "More messages wait in a queue than its consumer takes.",
    doc: "docs/queues.md",
  },
  {
    name: "processing_p99",
    gauge: "queue_processing_p99_seconds",
    per: ["queue"],
    across: "max",
    warning: { above: 10, forMs: 5 * MINUTE_MS },
    critical: { above: 60, forMs: MINUTE_MS },
    ...usual,
    meaning: "One batch in a hundred takes its consumer longer than it should.",
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
    ...usual,
    meaning: "Of the deliveries of a queue, too many are put back.",
    doc: "docs/queues.md",
  },
  {
    name: "backlog_age",
    gauge: "queue_oldest_seconds",
    per: ["queue"],
    across: "max",
    warning: { above: 2 * DAY_S, forMs: 5 * MINUTE_MS },
    critical: { above: 3 * DAY_S, forMs: 0 },
    ...usual,
    meaning: "A message has waited so long in its queue that the platform will soon drop it: four days are the most.",
    doc: "docs/queues.md",
  },
  {
    name: "effects_in_doubt",
    gauge: "effects_in_doubt",
    per: [],
    warning: { above: 0, forMs: 0 },
    most: MAX_COUNTED,
    ...usual,
    meaning:
      "Nobody knows whether an effect happened, or it did and its rows were refused: a person has to look, then confirm or reject it.",
    doc: "docs/operating.md",
  },
  {
    name: "instances_overdue",
    gauge: "instances_overdue",
    per: ["workflow"],
    warning: { above: 0, forMs: 0 },
    critical: { above: 1000, forMs: 0 },
    most: MAX_COUNTED,
    ...usual,
    meaning: "Instances are past the time by which they were to have ended: somebody decides what becomes of them.",
    doc: "docs/operating.md#deadlines",
  },
  {
    name: "approvals_waiting",
    gauge: "approvals_waiting",
    per: ["workflow"],
    warning: { above: 0, forMs: 15 * MINUTE_MS },
    most: MAX_COUNTED,
    ...usual,
    meaning: "Questions wait for a person's answer, and their instances with them.",
    doc: "docs/operating.md#answer-questions",
  },
  {
    name: "approvals_pressing",
    gauge: "approvals_pressing",
    per: ["workflow"],
    critical: { above: 0, forMs: 0 },
    most: MAX_COUNTED,
    ...usual,
    meaning: "The time of questions is nearly over: soon each is answered as it says for nobody's answer.",
    doc: "docs/operating.md#answer-questions",
  },
  {
    name: "instances_unchecked",
    gauge: "instances_unchecked",
    per: [],
    warning: { above: 0, forMs: 5 * MINUTE_MS },
    critical: { above: 1000, forMs: 5 * MINUTE_MS },
    most: 2 * MAX_COUNTED,
    ...usual,
    meaning: "Instances were to be looked at by the keeper, and it has not come to them.",
    doc: "docs/operating.md",
  },
  {
    name: "lanes_blocked",
    gauge: "lanes_blocked",
    per: ["lane"],
    warning: { above: 0, forMs: MINUTE_MS },
    ...usual,
    meaning: "Lanes stand still, and all that is behind their heads waits.",
    doc: "docs/turns.md",
  },
  {
    name: "projection_lag",
    gauge: "projection_lag_seconds",
    per: ["projection"],
    across: "max",
    warning: { above: 30, forMs: 2 * MINUTE_MS },
    critical: { above: 300, forMs: 2 * MINUTE_MS },
    ...usual,
    meaning: "A projection is behind its ledgers: what people read is old.",
    doc: "docs/facts.md",
  },
  {
    name: "outbox_unconfirmed",
    gauge: "outbox_unconfirmed",
    per: [],
    warning: { above: 1000, forMs: 10 * MINUTE_MS },
    critical: { above: 9000, forMs: 10 * MINUTE_MS },
    most: MAX_COUNTED,
    ...usual,
    meaning: "Committed messages are sent again and again, and no consumer confirms them.",
    doc: "docs/how-it-works.md",
  },
  {
    name: "outbox_refused",
    gauge: "outbox_refused",
    per: [],
    warning: { above: 0, forMs: 5 * MINUTE_MS },
    most: MAX_COUNTED,
    ...usual,
    meaning: "A queue refuses committed messages: its binding is missing, or the platform is in trouble.",
    doc: "docs/how-it-works.md",
  },
  {
    name: "schedules_overdue",
    gauge: "schedules_overdue_seconds",
    per: [],
    across: "max",
    warning: { above: 120, forMs: MINUTE_MS },
    critical: { above: 900, forMs: MINUTE_MS },
    ...usual,
    meaning: "Schedules are due, and do not start.",
    doc: "docs/schedules.md",
  },
  {
    name: "keeper_late",
    gauge: KEEPER_LATE,
    per: [],
    across: "max",
    warning: { above: 60, forMs: 0 },
    critical: { above: 600, forMs: 0 },
    ...usual,
    meaning: "The keeper's round came late: for so long nothing was repaired, and no alert was raised.",
    doc: "docs/alerts.md",
  },
  {
    name: "divergences",
    gauge: "divergences",
    per: ["kind"],
    warning: { above: 0, forMs: 0 },
    most: MAX_COUNTED,
    ...usual,
    meaning: "What the database, the platform and the objects say does not agree.",
    doc: "docs/operating.md",
  },
];
