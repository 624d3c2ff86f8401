import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { miniflare } from "../../packages/millrace/cli/local/miniflare.ts";
import { keepInMemory } from "../../test/in-memory.ts";
import { median, round, say } from "../figures.ts";
import { takenBy } from "../processor.ts";
import { bundle, children, type Runtime } from "./door.ts";

const ROOT = join(import.meta.dirname, "../..");
const CELLS = 4;
const SLOW_MS = 5;
/** With this added time the databases are the bound, even on a busy machine. */
const SLOWER_MS = 100;
const DATABASES = ["DB", ...Array.from({ length: CELLS - 1 }, (_, index) => `DB_${index + 2}`)];

interface Asked {
  cells: number;
  /** The number of steps that wait for a recorder at the same time, in all cells. */
  waiting: number;
  count: number;
  slow?: number;
}

/**
 * Compares the outcomes that the recorders of four cells and of one cell store, with 5 ms added to each D1 batch. The files are in memory
 * if there is space: the local runtime has one thread, so a sync of one database to the disk would stop all cells.
 */
export async function cellFigures(rounds: number) {
  keepInMemory();
  const { Miniflare, convertV4MiniflareOptions } = miniflare();
  const options = {
    ...{ host: "127.0.0.1", port: 0, cf: false, logRequests: false, handleStructuredLogs: () => undefined },
    ...{ modules: true, compatibilityDate: "2026-10-01", compatibilityFlags: ["nodejs_compat"] },
    script: bundle("cells-worker.ts", ROOT),
    bindings: { MILLRACE_KEY: "bench", CELLS },
    d1Databases: Object.fromEntries(DATABASES.map((name) => [name, name])),
    r2Buckets: { PAYLOADS: "payloads" },
    durableObjects: { RECORDER: { className: "Recorder", useSQLite: true }, KEEPER: { className: "Keeper", useSQLite: true } },
  };
  const runtime = new Miniflare(convertV4MiniflareOptions({ workers: [{ ...options, name: "cells" }] })) as unknown as Runtime;
  try {
    await runtime.ready;
    const folder = join(ROOT, "packages/millrace/migrations");
    for (const name of DATABASES) {
      const db = await runtime.getD1Database(name, "cells");
      for (const file of readdirSync(folder).sort()) await db.prepare(readFileSync(join(folder, file), "utf8")).run();
    }
    const ask = async ({ cells, waiting, count, slow = SLOW_MS }: Asked) => {
      const [from, began] = [takenBy(children()) ?? Number.NaN, performance.now()];
      const answer = await runtime.dispatchFetch(`http://cells/?cells=${cells}&waiting=${waiting}&count=${count}&slow=${slow}`);
      const text = await answer.text();
      if (!answer.ok) throw new Error(`The Worker answered: ${text.slice(0, 500)}`);
      const cores = ((takenBy(children()) ?? Number.NaN) - from) / (1000 * (performance.now() - began));
      return { perSecond: JSON.parse(text) as number, cores };
    };
    /** Alternates one cell and four cells. The first round warms up the runtime and is not counted. */
    const compared = async (one: Asked, four: Asked) => {
      const all: { one: number; four: number; cores: number }[] = [];
      for (let time = 0; time <= rounds; time++) {
        const [alone, together] = [await ask(one), await ask(four)];
        if (time > 0) all.push({ one: alone.perSecond, four: together.perSecond, cores: together.cores });
      }
      return {
        one: median(all.map((found) => found.one)),
        four: median(all.map((found) => found.four)),
        ratio: round(median(all.map((found) => found.four / found.one))),
        cores: round(median(all.map((found) => found.cores))),
      };
    };
    const grown = await compared({ cells: 1, waiting: 16, count: 800 }, { cells: CELLS, waiting: 64, count: 3200 });
    const same = await compared({ cells: 1, waiting: 64, count: 1600 }, { cells: CELLS, waiting: 64, count: 3200 });
    const slower = { slow: SLOWER_MS, waiting: 16, count: 400 };
    const bound = await compared({ cells: 1, ...slower }, { ...slower, cells: CELLS, waiting: 64, count: 1600 });
    const figures = { cells_ratio: grown.ratio, cells_ratio_same_steps: same.ratio, cells_ratio_slower_d1: bound.ratio };
    const told = ({ one, four, cores }: typeof grown) => [
      `one cell ${one.toFixed(0)}/s`,
      `${CELLS} cells ${four.toFixed(0)}/s`,
      `${cores} cores used`,
    ];
    say(`outcomes, ${SLOW_MS} ms added to each D1 batch, 16 waiting steps in each cell`, ...told(grown), grown.ratio);
    say(`the same, 64 waiting steps in all`, ...told(same), same.ratio);
    say(`outcomes, ${SLOWER_MS} ms added to each D1 batch, 16 waiting steps in each cell`, ...told(bound), bound.ratio);
    return figures;
  } finally {
    await runtime.dispose();
  }
}
