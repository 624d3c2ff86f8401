import type { Sample } from "../observe/metrics/sample.ts";
import { type Alert, groupOf, OTHERS } from "../store/alerts.ts";
import type { AlertRule } from "./rule.ts";

/** A sample, and what it knows of what happened beside how much. */
export interface Reading extends Sample {
  /** How often it has happened since its alert has seen it last. */
  readonly fresh?: number;
  /** Ids of what it is about. */
  readonly examples?: readonly string[];
  /** When it happened last. */
  readonly lastAt?: number;
}

/** What a rule sees in one group. */
export interface Observation {
  readonly group: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** New since the last look; undefined where the rule is about a level. */
  readonly count: number | undefined;
  readonly examples: readonly string[];
  readonly lastAt: number | undefined;
}

/** Alerts of one rule at one time; what is beyond them is one more, whose labels say `others`: in a storm people read a handful. */
export const MAX_GROUPS = 20;

/** The samples of a rule by its groups: those with an open alert first, then the worst. */
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
  // Alerts that are fading have a place of their own as well, though nothing is read of them.
  const room = Math.max(0, MAX_GROUPS - open.filter(({ labels }) => !isOthers(labels)).length);
  if (newcomers.length <= room) return grouped;
  const ranked = newcomers.toSorted((one, other) => other.value - one.value);
  const least = Math.min(...[warning, critical].flatMap((threshold) => threshold?.above ?? []));
  const rest = ranked
    .slice(room)
    .filter(({ value }) => value > least)
    .map(asReading);
  const others = groupsOf(rest, () => Object.fromEntries(per.map((label) => [label, OTHERS])), across);
  // What was read of others stands for itself where their alert is open: it is among those beyond the room, and is counted once.
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
      // Without end is beyond every bound, and no value that a row can have.
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
