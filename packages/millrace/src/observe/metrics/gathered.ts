import type { EngineEnv } from "../../contract/bindings.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { SPAN_MS } from "../../store/counts.ts";
import type { Along } from "../../store/d1/group-commit.ts";
import { insertTally, type TallyRow } from "../../store/tallies.ts";
import { addAll, isEmpty, labelValues, type Tally } from "./tally.ts";

/** Age of the oldest gathered count at which all counts are written, in milliseconds. */
export const WRITE_MS = 10_000;

/** Counts that isolates have sent to one recorder, until a commit writes them. The counts are lost with the recorder's process. */
export class GatheredCounts {
  #tally: Tally = {};
  #since: number | undefined;
  /**
   * The row that is being written. The row does not change until its write is confirmed, so a repeated write replaces the same row, and its
   * counts are added once.
   */
  #row: TallyRow | undefined;
  #notBefore = 0;

  constructor(readonly env: Pick<EngineEnv, "METRICS">) {}

  add(tally: Tally): void {
    if (isEmpty(tally)) return;
    this.#since ??= Date.now();
    addAll(this.#tally, tally);
  }

  get isEmpty(): boolean {
    return this.#since === undefined && this.#row === undefined;
  }

  /**
   * The row of counts to add to the next commit; undefined if the row is not due. A row is due after ten seconds and at the end of a
   * minute, or at once with `atOnce`.
   */
  along(atOnce = false): Along | undefined {
    const now = Date.now();
    if (!atOnce && now < this.#notBefore) return undefined;
    this.#row ??= this.#due(now, atOnce);
    const row = this.#row;
    if (row === undefined) return undefined;
    this.#notBefore = now + WRITE_MS;
    return {
      statement: insertTally(row),
      settled: (isWritten) => {
        if (!isWritten || this.#row !== row) return;
        this.#row = undefined;
        sendPoints(this.env, row.body);
      },
    };
  }

  #due(now: number, atOnce: boolean): TallyRow | undefined {
    const since = this.#since;
    if (since === undefined) return undefined;
    const isOtherMinute = Math.floor(now / SPAN_MS.minute) !== Math.floor(since / SPAN_MS.minute);
    if (!atOnce && Math.abs(now - since) < WRITE_MS && !isOtherMinute) return undefined;
    const body = JSON.stringify(this.#tally);
    this.#tally = {};
    this.#since = undefined;
    return { id: crypto.randomUUID(), at: since, body };
  }
}

/** The platform's limit of data points per invocation. */
const MAX_POINTS = 250;

/**
 * Sends counts to Analytics Engine if `METRICS` is bound to a dataset. Each series is one data point: the index is the series' name, the
 * blobs are the label values. The doubles are the count, or the count and sum of a histogram. Never throws.
 */
function sendPoints({ METRICS }: Pick<EngineEnv, "METRICS">, body: string): void {
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
