import { COUNTERS, type CounterName, HISTOGRAMS, type HistogramName } from "./series.ts";

/**
 * Counts as plain data. The first key is the name of the counter or histogram, the second its label values as JSON in the order of their
 * definition. A counter is a number. A histogram is a list of one count per bucket, one count of values above all buckets, and the sum of
 * the values.
 */
export type Tally = Record<string, Record<string, number | number[]>>;

/** Maximum number of series of one name in a tally. Further series are counted as `other`, so that the tally cannot grow without limit. */
export const MAX_SERIES = 500;

export function addCount(tally: Tally, name: CounterName, labels: Readonly<Record<string, string>>, by: number): void {
  addTo(tally, name, textOf(COUNTERS[name].labels, labels), by);
}

/** Adds measured values to a histogram. Each value must be 0 or more. */
export function addObserved(tally: Tally, name: HistogramName, labels: Readonly<Record<string, string>>, values: readonly number[]): void {
  const { buckets, labels: names } = HISTOGRAMS[name];
  const counts = new Array<number>(buckets.length + 2).fill(0);
  const add = (place: number, by: number) => {
    counts[place] = (counts[place] ?? 0) + by;
  };
  for (const value of values) {
    const index = buckets.findIndex((bound) => value <= bound);
    add(index === -1 ? buckets.length : index, 1);
    add(buckets.length + 1, Math.max(0, value));
  }
  if (values.length > 0) addTo(tally, name, textOf(names, labels), counts);
}

export function addAll(to: Tally, from: Tally): void {
  for (const [name, series] of Object.entries(from)) for (const [labels, value] of Object.entries(series)) addTo(to, name, labels, value);
}

export function sumOf(tallies: Iterable<Tally>): Tally {
  const sum: Tally = {};
  for (const tally of tallies) addAll(sum, tally);
  return sum;
}

/** The label values of a series from its key in a tally; an empty list for a key that the engine did not write. */
export function labelValues(labels: string): string[] {
  try {
    const values: unknown = JSON.parse(labels);
    return Array.isArray(values) ? values.map(String) : [];
  } catch {
    return [];
  }
}

/** The counts in a row's JSON. Invalid parts are ignored, so that an invalid row does not hide other counts. */
export function tallyIn(text: string): Tally {
  const tally: Tally = {};
  for (const [name, series] of entriesOf(JSON.parse(text))) {
    const counted = entriesOf(series).filter(([, value]) => isCounted(value));
    if (counted.length > 0) tally[name] = Object.fromEntries(counted) as Record<string, number | number[]>;
  }
  return tally;
}

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
}

function isCounted(value: unknown): boolean {
  return (Array.isArray(value) ? value : [value]).every((one) => typeof one === "number");
}

export function isEmpty(tally: Tally): boolean {
  for (const _ in tally) return false;
  return true;
}

function addTo(tally: Tally, name: string, labels: string, value: number | number[]): void {
  tally[name] ??= {};
  const series = tally[name];
  const known = series[labels];
  if (known === undefined) {
    const isFull = Object.keys(series).length >= MAX_SERIES;
    const place = isFull ? JSON.stringify(labelValues(labels).map(() => "other")) : labels;
    const there = series[place];
    series[place] = there === undefined ? copyOf(value) : plus(there, value);
  } else series[labels] = plus(known, value);
}

function copyOf(value: number | number[]): number | number[] {
  return typeof value === "number" ? value : [...value];
}

/** Adds two values of a series. If a histogram has the buckets of another deployment, its counts start again from zero. */
function plus(known: number | number[], value: number | number[]): number | number[] {
  if (typeof known === "number" && typeof value === "number") return known + value;
  if (typeof known === "number" || typeof value === "number" || known.length !== value.length) return copyOf(value);
  return known.map((one, index) => one + (value[index] ?? 0));
}

function textOf(names: readonly string[], labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(names.map((name) => labels[name] ?? ""));
}
