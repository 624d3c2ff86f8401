import type { Sample } from "../observe/metrics/sample.ts";
import { type Alert, groupOf, OTHERS } from "../store/alerts.ts";
import type { AlertRule } from "./rule.ts";

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
export interface Observation {
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
export function observationsOf(
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
