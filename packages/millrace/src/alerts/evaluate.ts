import { digest } from "../contract/ids.ts";
import type { Sample } from "../observe/metrics/series.ts";
import { type Alert, groupOf, OTHERS, type Severity } from "../store/alerts.ts";
import type { AlertRule } from "./rule.ts";

/** The changes of an alert that a notice reports. `eased`: a critical alert is a warning again. */
export const ALERT_CHANGES = ["firing", "escalated", "eased", "repeated", "resolved"] as const;
export type AlertChange = (typeof ALERT_CHANGES)[number];

/**
 * The result of an evaluation for one alert: the alert's next row and the notice to send. `gone` means that the alert ended before a
 * notice was sent.
 */
export type Step = { readonly alert: Alert; readonly notice: AlertChange | undefined } | { readonly gone: Alert };

/** Interval at which the value of a continuing alert is written to the database. */
const REFRESH_MS = 60_000;

/**
 * Maximum pause between two readings of a continuing alert. After a longer pause between two readings it is unknown whether an alert's
 * bound was exceeded the whole time.
 */
const LONGEST_GAP_MS = 180_000;

/**
 * Evaluates the readings of one moment, and returns the alerts that begin, change or end, with their notices. An alert without such a
 * change is returned once a minute, so that its value is written to the database. `known`: open alerts, and muted resolved alerts.
 */
export function evaluate(rules: readonly AlertRule[], readings: readonly Reading[], known: readonly Alert[], now: number): Step[] {
  const open = known.filter(({ state }) => state !== "resolved");
  const ofRule = Map.groupBy(open, ({ rule }) => rule);
  const current = rules.flatMap((rule) => {
    const before = ofRule.get(rule.name) ?? [];
    const seen = observationsOf(rule, readings, before);
    const gone = before.filter(({ labels }) => !seen.some((one) => one.group === groupOf(labels)));
    return [
      ...seen.map((one) => stepOf(rule, one, before.find(({ labels }) => groupOf(labels) === one.group) ?? muted(known, rule, one), now)),
      ...gone.map((alert) => stepOf(rule, undefined, alert, now)),
    ];
  });
  // The alerts of a rule end when the rule is switched off.
  const ruleless = open.filter(({ rule }) => !rules.some(({ name }) => name === rule));
  const ended = ruleless.map((before) => ({ before, after: before.state === "pending" ? undefined : resolved(before, now) }));
  return [...current, ...ended].flatMap((moved) => (moved === undefined ? [] : told(moved, rules, now)));
}

interface Moved {
  readonly before: Alert | undefined;
  /** The alert after the evaluation. Undefined if a pending alert has ended. */
  readonly after: Alert | undefined;
}

/** The mute of a resolved alert applies to the next alert of its group. */
function muted(known: readonly Alert[], rule: AlertRule, { group }: Observation): Pick<Alert, "mutedUntil" | "muteReason"> | undefined {
  return known.find((one) => one.state === "resolved" && one.rule === rule.name && groupOf(one.labels) === group);
}

/**
 * Evaluates one group of a rule. Returns undefined if no bound is exceeded and the group has no alert. An alert remains unchanged as long
 * as its value cannot be read.
 */
function stepOf(
  rule: AlertRule,
  seen: Observation | undefined,
  known: Alert | Pick<Alert, "mutedUntil" | "muteReason"> | undefined,
  now: number,
): Moved | undefined {
  const before = known && "id" in known && known.state !== "resolved" ? known : undefined;
  if (Number.isNaN(seen?.value)) return before && { before, after: before };
  const level = seen && levelOf(rule, seen.value);
  if (!seen || level === undefined) {
    if (before === undefined) return undefined;
    return { before, after: before.state === "pending" ? undefined : fading(rule, before, now) };
  }
  // If the clock was set back, the alert's duration is unknown, as after a long pause between readings.
  const lasts = before !== undefined && !(before.state === "pending" && Math.abs(now - before.updatedAt) > LONGEST_GAP_MS);
  const row = before && { id: before.id, version: before.version };
  const refreshed = lasts ? refresh(before, seen, now) : { ...begun(rule, seen, level, known, now), ...row };
  const criticalSince = level === "critical" ? (refreshed.criticalSince ?? now) : null;
  const alert = { ...refreshed, criticalSince, quietSince: null };
  return { before, after: alert.state === "pending" ? ripened(rule, alert, now) : shifted(rule, alert, level, now) };
}

function levelOf({ warning, critical }: AlertRule, value: number): Severity | undefined {
  if (critical && value > critical.above) return "critical";
  return warning && value > warning.above ? "warning" : undefined;
}

function begun(
  rule: AlertRule,
  { labels, group, value, count, examples, lastAt }: Observation,
  severity: Severity,
  mute: Pick<Alert, "mutedUntil" | "muteReason"> | undefined,
  now: number,
): Alert {
  return {
    id: digest("alert", rule.name, group, String(now)),
    rule: rule.name,
    labels,
    state: "pending",
    severity,
    value,
    count: count ?? null,
    examples: examples.slice(0, MAX_EXAMPLES),
    since: now,
    criticalSince: null,
    milderSince: null,
    quietSince: null,
    firedAt: null,
    told: null,
    lastAt: lastAt ?? now,
    updatedAt: now,
    resolvedAt: null,
    mutedUntil: mute?.mutedUntil ?? null,
    muteReason: mute?.muteReason ?? null,
    version: 0,
  };
}

const MAX_EXAMPLES = 3;

function refresh(alert: Alert, { value, count, examples, lastAt }: Observation, now: number): Alert {
  const all = [...new Set([...alert.examples, ...examples])].slice(0, MAX_EXAMPLES);
  return { ...alert, value, count: count === undefined ? null : (alert.count ?? 0) + count, examples: all, lastAt: lastAt ?? now };
}

/** Makes a pending alert fire when one of its bounds was exceeded for long enough. */
function ripened(rule: AlertRule, alert: Alert, now: number): Alert {
  const severity = isHeld(rule.critical, alert.criticalSince, now)
    ? "critical"
    : isHeld(rule.warning, alert.since, now)
      ? "warning"
      : undefined;
  return severity === undefined ? alert : { ...alert, state: "firing", severity, firedAt: now };
}

function isHeld(threshold: AlertRule["warning"], since: number | null, now: number): boolean {
  return threshold !== undefined && since !== null && now - since >= threshold.forMs;
}

/**
 * A continuing alert becomes critical when the critical bound was exceeded for long enough, and a warning again when that bound was not
 * exceeded for `clearMs`.
 */
function shifted(rule: AlertRule, alert: Alert, level: Severity | undefined, now: number): Alert {
  if (alert.severity === "warning") return isHeld(rule.critical, alert.criticalSince, now) ? { ...alert, severity: "critical" } : alert;
  if (level === "critical") return { ...alert, milderSince: null };
  const milderSince = alert.milderSince ?? now;
  return now - milderSince < rule.clearMs ? { ...alert, milderSince } : { ...alert, severity: "warning", milderSince: null };
}

/** A firing alert is resolved when none of its bounds was exceeded for `clearMs`. */
function fading(rule: AlertRule, alert: Alert, now: number): Alert {
  const quietSince = Math.min(alert.quietSince ?? now, now);
  const quiet = { ...alert, quietSince, criticalSince: null };
  return now - quietSince < rule.clearMs || isKeptForWhoHeard(alert, now) ? shifted(rule, quiet, undefined, now) : resolved(quiet, now);
}

/** A muted alert for which a notice was sent is resolved only after the mute, so that a notice of the alert's end is sent too. */
function isKeptForWhoHeard({ told, mutedUntil }: Alert, now: number): boolean {
  return told !== null && mutedUntil !== null && mutedUntil > now;
}

function resolved(alert: Alert, now: number): Alert {
  return { ...alert, state: "resolved", resolvedAt: now };
}

function told({ before, after }: Moved, rules: readonly AlertRule[], now: number): Step[] {
  if (after === undefined) return before ? [{ gone: before }] : [];
  const notice = noticeOf(after, rules.find(({ name }) => name === after.rule)?.repeatMs, now);
  const alert = notice ? { ...after, told: { at: now, severity: after.severity } } : after;
  return before && !notice && isSame(before, alert) && now - alert.updatedAt < REFRESH_MS
    ? []
    : [{ alert: { ...alert, updatedAt: now, version: alert.version + 1 }, notice }];
}

/**
 * The notice to send for an alert. No notice is sent while the alert is muted, and no `resolved` if no notice of the alert's start was
 * sent.
 */
function noticeOf(
  { state, severity, told, mutedUntil, quietSince }: Alert,
  repeatMs: number | undefined,
  now: number,
): AlertChange | undefined {
  if (mutedUntil !== null && mutedUntil > now) return undefined;
  if (state === "resolved") return told ? "resolved" : undefined;
  if (state === "pending" || quietSince !== null) return undefined;
  if (told === null) return "firing";
  if (told.severity !== severity) return severity === "critical" ? "escalated" : "eased";
  return repeatMs !== undefined && now - told.at >= repeatMs ? "repeated" : undefined;
}

function isSame(one: Alert, other: Alert): boolean {
  return STANDING.every((field) => one[field] === other[field]);
}

const STANDING = ["state", "since", "severity", "count", "criticalSince", "milderSince", "quietSince"] as const satisfies (keyof Alert)[];

/** A sample of a metric, with details of the events that it counts. */
export interface Reading extends Sample {
  /** The number of events since the alert's last evaluation. */
  readonly fresh?: number;
  /** Ids of affected instances or dead letters. */
  readonly examples?: readonly string[];
  /** Time of the last counted event. */
  readonly lastAt?: number;
}

/** The values of one group that an alert rule evaluates. */
interface Observation {
  readonly group: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** The number of events since the last evaluation of the rule; undefined for a rule about a current value. */
  readonly count: number | undefined;
  readonly examples: readonly string[];
  readonly lastAt: number | undefined;
}

/**
 * Maximum number of alerts that one rule raises at the same time. All further groups of the rule share one alert with the label `others`,
 * so that an outage produces few notices.
 */
export const MAX_GROUPS = 20;

/** Groups the samples of an alert rule. Groups with an open alert are first, then the groups with the highest values. */
function observationsOf(
  { gauge, per, across = "sum", warning, critical }: AlertRule,
  readings: readonly Reading[],
  open: readonly Alert[],
): Observation[] {
  const known = new Set(open.map(({ labels }) => groupOf(labels)));
  const grouped = groupsOf(
    readings.filter(({ name }) => name === gauge),
    ({ labels }) => Object.fromEntries(per.map((label) => [label, labels[label] ?? ""])),
    across,
  );
  const newcomers = grouped.filter(({ group }) => !known.has(group));
  // An open alert without a new reading still counts against the maximum.
  const room = Math.max(0, MAX_GROUPS - open.filter(({ labels }) => !isOthers(labels)).length);
  if (newcomers.length <= room) return grouped;
  const ranked = newcomers.toSorted((one, other) => other.value - one.value);
  const least = Math.min(...[warning, critical].flatMap((threshold) => threshold?.above ?? []));
  const rest = ranked
    .slice(room)
    .filter(({ value }) => value > least)
    .map(asReading);
  const others = groupsOf(rest, () => Object.fromEntries(per.map((label) => [label, OTHERS])), across);
  // The group `others` with an open alert is excluded here, because its samples are already among the groups beyond the maximum.
  const present = grouped.filter(({ group, labels }) => known.has(group) && !isOthers(labels));
  return [...present, ...ranked.slice(0, room), ...others];
}

const isOthers = (labels: Alert["labels"]) => Object.values(labels).every((label) => label === OTHERS) && Object.keys(labels).length > 0;

function groupsOf(readings: readonly Reading[], labelsOf: (reading: Reading) => Alert["labels"], across: "sum" | "max"): Observation[] {
  const groups = Map.groupBy(readings, (reading) => groupOf(labelsOf(reading)));
  return [...groups].map(([group, members]) => {
    const values = members.map(({ value }) => value);
    const lasts = members.flatMap(({ lastAt }) => lastAt ?? []);
    const counts = members.flatMap(({ fresh }) => fresh ?? []);
    return {
      group,
      labels: JSON.parse(group),
      // Infinity exceeds every bound but cannot be stored in a row.
      value: Math.min(across === "max" ? Math.max(...values) : sum(values), Number.MAX_SAFE_INTEGER),
      count: counts.length > 0 ? sum(counts) : undefined,
      examples: members.flatMap(({ examples = [] }) => examples),
      lastAt: lasts.length > 0 ? Math.max(...lasts) : undefined,
    };
  });
}

function asReading({ labels, value, count, examples, lastAt }: Observation): Reading {
  return { name: "", labels, value, examples, ...(count !== undefined && { fresh: count }), ...(lastAt !== undefined && { lastAt }) };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
