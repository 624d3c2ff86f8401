import { query } from "../store/d1/retry.ts";
import { EXAMPLES } from "../store/health.ts";
import type { Reading } from "./observations.ts";

/** Adds example ids of affected instances to gauges above 0, where the database can list such instances. */
export async function withExamples(db: D1Database, gauges: readonly Reading[]): Promise<Reading[]> {
  const names = (Object.keys(EXAMPLES) as (keyof typeof EXAMPLES)[]).filter((one) =>
    gauges.some(({ name, value }) => name === one && value > 0),
  );
  const found = await Promise.all(
    names.map(async (name) => {
      const rows = await query<{ workflow: string; ids: string }>(db, EXAMPLES[name]);
      return [name as string, new Map(rows.map(({ workflow, ids }) => [workflow, JSON.parse(ids) as string[]]))] as const;
    }),
  );
  const byGauge = new Map(found);
  return gauges.map((reading) => {
    const examples = byGauge.get(reading.name)?.get(reading.labels.workflow ?? "");
    return examples ? { ...reading, examples } : reading;
  });
}
