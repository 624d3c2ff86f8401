import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inMemory } from "../in-memory.ts";
import { startUpstream } from "../upstream/start.ts";
import { Database } from "./database.ts";
import { ChaosEngine } from "./engine.ts";

/** A separate engine, with an upstream, in a folder that is removed afterwards. */
export interface Workshop {
  engine: ChaosEngine;
  database: Database;
  upstreamUrl: string;
  folder: string;
}

/** Runs a function with an engine that is started with these variables, and stopped afterwards. */
export async function withEngine<T>(work: (workshop: Workshop) => Promise<T>, vars: Record<string, string> = {}): Promise<T> {
  const folder = mkdtempSync(join(inMemory() ?? tmpdir(), "millrace-chaos-"));
  const upstream = await startUpstream(join(folder, "ledger.jsonl"));
  const config = join(import.meta.dirname, "wrangler.jsonc");
  const engine = new ChaosEngine(folder, { config, vars: { UPSTREAM_URL: upstream.url, ...vars } });
  let database: Database | undefined;
  const clear = () => {
    upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  // Also if the process is ended in the middle of the function.
  process.once("exit", clear);
  try {
    await engine.start();
    database = new Database(folder);
    return await work({ engine, database, upstreamUrl: upstream.url, folder });
  } finally {
    database?.close();
    await engine.end();
    process.off("exit", clear);
    clear();
  }
}
