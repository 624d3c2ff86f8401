import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { miniflare } from "../../packages/millrace/cli/local/miniflare.ts";
import { keepInMemory } from "../../test/in-memory.ts";
import { median, round, say } from "../figures.ts";
import { takenBy } from "../processor.ts";
import { bundle, children, type Runtime } from "./door.ts";

const ROOT = join(import.meta.dirname, "../..");
const SLOW_MS = 5;
const CELLS = [1, 2, 3, 4];
/** The number of steps that wait for the recorders of a cell at the same time. */
const WAITING = 16;
/** The number of outcomes of each waiting step in a measurement. */
const OUTCOMES = 50;

interface Asked {
  /** The measured cells of a process. */
  cells: readonly number[];
  /** The number of waiting steps in each cell. */
  waiting: number;
}

/**
 * Compares the outcomes that the recorders of four cells and of one cell store, with 5 ms added to each D1 batch. On the platform, each
 * database and each object has its own thread. The local runtime has one thread for all of a process, so `cells_ratio` measures each cell
 * in its own process. `cells_ratio_one_process` measures the four cells in one process, where each cell's writes delay the others.
 */
export async function cellFigures(rounds: number) {
  // A sync of a database to the disk would delay the other cells.
  keepInMemory();
  const script = bundle("cells-worker.ts", ROOT);
  const started: Runtime[] = [];
  try {
    for (const _ of CELLS) started.push(await start(script));
    /** Outcomes per second of the processes, each with its cells, until the last process has completed. */
    const measured = async (processes: readonly Asked[]) => {
      const [from, began] = [takenBy(children()) ?? Number.NaN, performance.now()];
      const seconds = await Promise.all(processes.map((asked, index) => ask(started[index] as Runtime, asked)));
      const cores = ((takenBy(children()) ?? Number.NaN) - from) / (1000 * (performance.now() - began));
      const outcomes = processes.reduce((sum, { cells, waiting }) => sum + cells.length * waiting * OUTCOMES, 0);
      return { perSecond: outcomes / Math.max(...seconds), cores };
    };
    /** Alternates both. The first round warms up the runtimes and is not counted. */
    const compared = async (what: string, one: readonly Asked[], four: readonly Asked[]) => {
      const all: { one: number; four: number; cores: number }[] = [];
      for (let time = 0; time <= rounds; time++) {
        const [alone, together] = [await measured(one), await measured(four)];
        if (time > 0) all.push({ one: alone.perSecond, four: together.perSecond, cores: together.cores });
      }
      const middle = (of: "one" | "four" | "cores") => median(all.map((found) => found[of]));
      const ratio = round(median(all.map((found) => found.four / found.one)));
      const figures = [`one cell ${middle("one").toFixed(0)}/s`, `four cells ${middle("four").toFixed(0)}/s`];
      say(`outcomes, ${SLOW_MS} ms added to each D1 batch, ${what}`, ...figures, `${round(middle("cores"))} cores used`, ratio);
      return ratio;
    };
    const one = [{ cells: [1], waiting: WAITING }];
    const apart = CELLS.map((cell) => ({ cells: [cell], waiting: WAITING }));
    return {
      cells_ratio: await compared(`${WAITING} waiting steps in each cell`, one, apart),
      cells_ratio_one_process: await compared("all cells in one process", one, [{ cells: CELLS, waiting: WAITING }]),
      cells_ratio_same_steps: await compared(`${4 * WAITING} waiting steps in all`, [{ cells: [1], waiting: 4 * WAITING }], apart),
    };
  } finally {
    for (const runtime of started) await runtime.dispose();
  }
}

/** A process with the databases and objects of all cells. */
async function start(script: string): Promise<Runtime> {
  const { Miniflare, convertV4MiniflareOptions } = miniflare();
  const databases = CELLS.map((cell) => (cell === 1 ? "DB" : `DB_${cell}`));
  const options = {
    ...{ host: "127.0.0.1", port: 0, cf: false, logRequests: false, handleStructuredLogs: () => undefined },
    ...{ name: "cells", modules: true, compatibilityDate: "2026-10-01", compatibilityFlags: ["nodejs_compat"], script },
    bindings: { MILLRACE_KEY: "bench", CELLS: CELLS.length },
    d1Databases: Object.fromEntries(databases.map((name) => [name, name])),
    r2Buckets: { PAYLOADS: "payloads" },
    durableObjects: { RECORDER: { className: "Recorder", useSQLite: true }, KEEPER: { className: "Keeper", useSQLite: true } },
  };
  const runtime = new Miniflare(convertV4MiniflareOptions(options)) as unknown as Runtime;
  await runtime.ready;
  const folder = join(ROOT, "packages/millrace/migrations");
  for (const name of databases) {
    const db = await runtime.getD1Database(name, "cells");
    for (const file of readdirSync(folder).sort()) await db.prepare(readFileSync(join(folder, file), "utf8")).run();
  }
  return runtime;
}

/** The seconds in which the cells store the outcomes. */
async function ask(runtime: Runtime, { cells, waiting }: Asked): Promise<number> {
  const query = new URLSearchParams({ cells: cells.join(), waiting: `${waiting}`, count: `${waiting * OUTCOMES}`, slow: `${SLOW_MS}` });
  const answer = await runtime.dispatchFetch(`http://cells/?${query}`);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`The Worker answered: ${text.slice(0, 500)}`);
  return Number(text);
}
