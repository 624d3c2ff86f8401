import { writeFileSync } from "node:fs";
import { join } from "node:path";

const SCRIPT = join(import.meta.dirname, "worker.ts");

const CONFIG = {
  name: "millrace-demo-lanes",
  main: SCRIPT,
  compatibility_date: "2026-10-01",
  compatibility_flags: ["nodejs_compat"],
  define: { MILLRACE_CRASH_POINTS: "false" },
  // By its id it is the database that every local engine gets a copy of: its fences are what the lock's late writer meets.
  d1_databases: [{ binding: "DB", database_name: "millrace", database_id: "00000000-0000-0000-0000-000000000000" }],
  durable_objects: {
    bindings: [
      { name: "LANES", class_name: "Lanes" },
      { name: "RATE_LIMIT", class_name: "RateLimit" },
      { name: "LOCK", class_name: "Lock" },
    ],
  },
  migrations: [{ tag: "v1", new_sqlite_classes: ["Lanes", "RateLimit", "Lock"] }],
};

/**
 * Writes the configuration of the demo's Worker, and answers what the local runtime is given. It stands in the demo's folder, since wrangler
 * keeps files of its own beside it, and the sources are what bundles are made of.
 */
export function demoWorker(folder: string): { script: string; config: string } {
  const config = join(folder, "wrangler.json");
  writeFileSync(config, JSON.stringify(CONFIG));
  return { script: SCRIPT, config };
}
