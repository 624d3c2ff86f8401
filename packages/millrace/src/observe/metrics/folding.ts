import type { EngineEnv } from "../../contract/bindings.ts";
import { inCell } from "../../contract/cells.ts";
import { type CountsRow, SPAN_MS, selectCountsAt, selectCountsBetween, selectEver, writeCounts, writeEver } from "../../store/counts.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { removeTallies, selectTallies, type TallyRow } from "../../store/tallies.ts";
import { addAll, sumOf, type Tally, tallyIn } from "./tally.ts";

/**
 * Maximum number of tallies that are merged at once. A recorder writes six tallies per minute, so this many tallies exist only after an
 * outage.
 */
const MAX_TALLIES = 500;
/** Number of past minutes with separate counts, which the health table uses. */
export const WINDOW_MINUTES = 60;

/** The counts of all time, and separate counts for each minute of the last hour. */
export interface Counted {
  readonly ever: Tally;
  /** The counts of each minute, by the start of the minute. */
  readonly minutes: ReadonlyMap<number, Tally>;
  /** When the recorders' tallies were last read, in milliseconds since the epoch. */
  readonly at: number;
}

/** Reads the stored counts of all time and of the last hour, including tallies that are not merged yet. */
export async function readCounted(env: Pick<EngineEnv, "DB">, at: number): Promise<Counted> {
  const rows = await namedBatch(env.DB, {
    ever: selectEver(),
    minutes: selectCountsBetween("minute", minuteOf(at) - WINDOW_MINUTES * SPAN_MS.minute, Number.MAX_SAFE_INTEGER),
    tallies: selectTallies(MAX_TALLIES),
  });
  const tallies = rows.tallies as unknown as TallyRow[];
  const minutes = new Map((rows.minutes as unknown as CountsRow[]).map((row) => [row.at, tallyOf(row)]));
  for (const [minute, tally] of byTime(tallies, SPAN_MS.minute)) minutes.set(minute, sumOf([minutes.get(minute) ?? {}, tally]));
  const [ever] = rows.ever as unknown as CountsRow[];
  return { ever: sumOf([ever ? tallyOf(ever) : {}, ...tallies.map(tallyOf)]), minutes, at };
}

/** The counts of each of the last hours in all cells, by the start of the hour. The counts of the last minute may be missing. */
export async function readHours(env: Pick<EngineEnv, "DB">, at: number, hours: number): Promise<Map<number, Tally>> {
  const { DB } = inCell(env);
  const first = (Math.floor(at / SPAN_MS.hour) - hours + 1) * SPAN_MS.hour;
  const { rows } = await namedBatch(DB, { rows: selectCountsBetween("hour", first, Number.MAX_SAFE_INTEGER) });
  return new Map((rows as unknown as CountsRow[]).map((row) => [row.at, tallyOf(row)]));
}

/**
 * Merges the recorders' tallies into the counts of their minute, their hour and all time, and deletes the tallies in the same write. Each
 * tally therefore counts once, however often the merge is repeated. The database refuses a concurrent second merge. Returns the number of
 * merged tallies.
 */
export async function foldTallies(env: Pick<EngineEnv, "DB">): Promise<number> {
  // Tallies and version are read together. By the version, the database refuses the write if another merge has included any of these
  // tallies.
  const read = await namedBatch(env.DB, { ever: selectEver(), tallies: selectTallies(MAX_TALLIES) });
  const tallies = read.tallies as unknown as TallyRow[];
  const [ever] = read.ever as unknown as CountsRow[];
  if (ever === undefined || tallies.length === 0) return 0;
  const minutes = byTime(tallies, SPAN_MS.minute);
  const hours = byTime(tallies, SPAN_MS.hour);
  const known = await namedBatch(env.DB, {
    minutes: selectCountsAt("minute", [...minutes.keys()]),
    hours: selectCountsAt("hour", [...hours.keys()]),
  });
  for (const row of known.minutes as unknown as CountsRow[]) addAll(minutes.get(row.at) ?? {}, tallyOf(row));
  for (const row of known.hours as unknown as CountsRow[]) addAll(hours.get(row.at) ?? {}, tallyOf(row));
  const total = sumOf([tallyOf(ever), ...tallies.map(tallyOf)]);
  await namedBatch(env.DB, {
    ever: writeEver(JSON.stringify(total), ever.version),
    minutes: [...minutes].map(([at, tally]) => writeCounts("minute", at, JSON.stringify(tally))),
    hours: [...hours].map(([at, tally]) => writeCounts("hour", at, JSON.stringify(tally))),
    gone: removeTallies(tallies.map(({ id }) => id)),
  });
  return tallies.length;
}

export function minuteOf(at: number): number {
  return Math.floor(at / SPAN_MS.minute) * SPAN_MS.minute;
}

function byTime(tallies: readonly TallyRow[], spanMs: number): Map<number, Tally> {
  const times = Map.groupBy(tallies, ({ at }) => Math.floor(at / spanMs) * spanMs);
  return new Map([...times].map(([at, those]) => [at, sumOf(those.map(tallyOf))]));
}

function tallyOf({ body }: { readonly body: string }): Tally {
  return tallyIn(body);
}
