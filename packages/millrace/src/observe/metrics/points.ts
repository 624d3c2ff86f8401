import type { EngineEnv } from "../../contract/bindings.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { labelValues, type Tally } from "./tally.ts";

/** The platform's limit of data points per invocation. */
const MAX_POINTS = 250;

/**
 * Sends counts to Analytics Engine if `METRICS` is bound to a dataset. Each series is one data point: the index is the series' name, the
 * blobs are the label values. The doubles are the count, or the count and sum of a histogram. Never throws.
 */
export function sendPoints({ METRICS }: Pick<EngineEnv, "METRICS">, body: string): void {
  if (METRICS === undefined) return;
  try {
    const all = Object.entries(JSON.parse(body) as Tally).flatMap(([name, series]) =>
      Object.entries(series).map(([labels, value]) => ({ name, labels, value })),
    );
    for (const { name, labels, value } of all.slice(0, MAX_POINTS)) {
      METRICS.writeDataPoint({ indexes: [name], blobs: labelValues(labels), doubles: doublesOf(value) });
    }
  } catch (error) {
    logLine("warn", { log: "metrics", part: "analytics_engine", error: messageOf(error) });
  }
}

function doublesOf(value: number | number[]): number[] {
  if (typeof value === "number") return [value];
  return [value.slice(0, -1).reduce((sum, one) => sum + one, 0), value.at(-1) ?? 0];
}
