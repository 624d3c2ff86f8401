import { COUNTERS, type Counter, definitionOf, GAUGES, type GaugeName, HISTOGRAMS, type Sample } from "./series.ts";
import { labelValues, type Tally } from "./tally.ts";

/** The prefix of every name in Prometheus. */
const PREFIX = "millrace_";

/** The two text formats of Prometheus. */
export type Format = "text" | "openmetrics";

export const MEDIA_TYPES: Readonly<Record<Format, string>> = {
  text: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** Writes counts and samples in a Prometheus format. Counts whose name the deployed code does not define are omitted. */
export function exposition(counts: Tally, samples: readonly Sample[], format: Format): string {
  const lines = [
    ...Object.entries(COUNTERS).flatMap(([name, counter]) => counterLines(name, counter, counts[name] ?? {}, format)),
    ...Object.entries(HISTOGRAMS).flatMap(([name, histogram]) => histogramLines(name, histogram, counts[name] ?? {})),
    ...[...Map.groupBy(samples.filter(isWritable), ({ name }) => name)].flatMap(([name, those]) => gaugeLines(name, those)),
    ...(format === "openmetrics" ? ["# EOF"] : []),
  ];
  return `${lines.join("\n")}\n`;
}

type Series = Tally[string];

/** The lines of a counter. In OpenMetrics, a counter's name is the name of its samples without their suffix. */
function counterLines(name: string, { help, labels }: Counter, series: Series, format: Format): string[] {
  const values = Object.entries(series).flatMap(([texts, value]) =>
    typeof value === "number" ? [line(name, labelled(labels, texts), value)] : [],
  );
  return values.length === 0 ? [] : [...head(format === "openmetrics" ? name.replace(/_total$/, "") : name, "counter", help), ...values];
}

function histogramLines(
  name: string,
  { help, labels, buckets }: Counter & { readonly buckets: readonly number[] },
  series: Series,
): string[] {
  const values = Object.entries(series).flatMap(([texts, measured]) => {
    if (typeof measured === "number" || measured.length !== buckets.length + 2) return [];
    const own = labelled(labels, texts);
    let below = 0;
    const counted = [...buckets.map(bound), "+Inf"].map((le, index) => {
      below += measured[index] ?? 0;
      return line(`${name}_bucket`, [...own, ["le", le]], below);
    });
    return [...counted, line(`${name}_sum`, own, measured.at(-1) ?? 0), line(`${name}_count`, own, below)];
  });
  return values.length === 0 ? [] : [...head(name, "histogram", help), ...values];
}

function gaugeLines(name: string, samples: readonly Sample[]): string[] {
  const help = Object.hasOwn(GAUGES, name) ? GAUGES[name as GaugeName].help : "A gauge of this deployment.";
  const values = new Map(samples.map(({ labels, value }) => [line(name, Object.entries(labels), Number.NaN), { labels, value }]));
  return [...head(name, "gauge", help), ...[...values.values()].map(({ labels, value }) => line(name, Object.entries(labels), value))];
}

/** True for a sample with a valid name, valid labels and a number, because an invalid sample would make the whole text unreadable. */
function isWritable({ name, labels, value }: Sample): boolean {
  return (
    NAME.test(name) && definitionOf(name) === undefined && Object.keys(labels).every((label) => NAME.test(label)) && Number.isFinite(value)
  );
}

const NAME = /^[a-z][a-z0-9_]*$/;

function labelled(names: readonly string[], texts: string): [string, string][] {
  const values = labelValues(texts);
  return names.map((name, index) => [name, values[index] ?? ""]);
}

function head(name: string, type: string, help: string): string[] {
  return [`# HELP ${PREFIX}${name} ${help}`, `# TYPE ${PREFIX}${name} ${type}`];
}

function line(name: string, labels: readonly (readonly [string, string])[], value: number): string {
  const said = labels.map(([label, text]) => `${label}="${escaped(text)}"`).join(",");
  return `${PREFIX}${name}${said && `{${said}}`} ${value}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** A histogram's bound as a float in both text formats, so that a series has the same labels in both formats. */
function bound(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
