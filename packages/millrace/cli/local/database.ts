import { createHash, createHmac } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Refusal } from "../command.ts";
import { readConfig } from "../wiring/config.ts";
import { madeOnce } from "./made-once.ts";
import { insertToken } from "./token.ts";
import { ROOT, shown } from "./wrangler.ts";

/** Migrations, by the table that records which of them are applied: the app's as wrangler does it, and the engine's. */
const MIGRATIONS = { d1_migrations: join(ROOT, "migrations"), millrace_migrations: join(ROOT, "packages/millrace/migrations") };

const BUSY_MS = 5_000;

/** Where wrangler keeps local databases, in the folder that it is told to persist to. */
const KEPT_IN = "v3/d1/miniflare-D1DatabaseObject";

/**
 * Brings a local database up to date and makes the token good in it. Both change nothing where nothing is to do. Nobody else may have
 * it open. It is read and written as the file it is: each of wrangler's commands would start a runtime of its own, for seconds.
 */
export async function prepareDatabase(folder: string, config: string, token: string): Promise<void> {
  const state = join(folder, "state");
  if (!existsSync(state)) await copyNewDatabase(folder, config);
  useDatabase(state, (database) => {
    applyMigrations(database);
    database.exec(insertToken(token));
  });
}

/** A copy that is there as a whole or not at all. */
async function copyNewDatabase(folder: string, config: string): Promise<void> {
  const made = await madeOnce("database", [...Object.values(MIGRATIONS), config], async (making) => makeDatabase(making, config));
  const copy = join(folder, "state.new");
  rmSync(copy, { recursive: true, force: true });
  cpSync(join(made, "state"), copy, { recursive: true });
  renameSync(copy, join(folder, "state"));
}

/**
 * All migrations, in the file that the local runtime takes for this database: wrangler would start a runtime to make it. It finds them in
 * its own list afterwards, and goes on from there.
 */
function makeDatabase(folder: string, config: string): void {
  const [bound] = readConfig(config).d1_databases ?? [];
  if (!bound) throw new Refusal(`${shown(config)} binds no database. It needs one in d1_databases, as DB.`);
  const kept = join(folder, "state", KEPT_IN);
  mkdirSync(kept, { recursive: true });
  const database = new DatabaseSync(join(kept, `${objectOf(bound.preview_database_id ?? bound.database_id ?? bound.binding)}.sqlite`));
  try {
    applyMigrations(database);
  } finally {
    database.close();
  }
}

/** The id of the object that keeps a database locally, which is the name of its file: the runtime derives it from the database's own id. */
function objectOf(databaseId: string): string {
  const key = createHash("sha256").update("miniflare-D1DatabaseObject").digest();
  const signed = (what: string | Buffer) => createHmac("sha256", key).update(what).digest().subarray(0, 16);
  const name = signed(databaseId);
  return Buffer.concat([name, signed(name)]).toString("hex");
}

/** Applies the migrations that are not applied, each as a whole, and records them as wrangler does. */
function applyMigrations(database: DatabaseSync): void {
  for (const [table, folder] of Object.entries(MIGRATIONS)) {
    database.exec(`CREATE TABLE IF NOT EXISTS ${table} (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL);`);
    const applied = new Set(
      database
        .prepare(`SELECT name FROM ${table}`)
        .all()
        .map(({ name }) => name),
    );
    for (const name of readdirSync(folder).sort()) {
      if (applied.has(name)) continue;
      database.exec(`BEGIN; ${readFileSync(join(folder, name), "utf8")}; INSERT INTO ${table} (name) VALUES ('${name}'); COMMIT;`);
    }
  }
}

/**
 * Uses a state's only database, and closes it; waits for a moment where a running engine writes. Errors: a `Refusal` if the state has none.
 */
export function useDatabase<T>(state: string, use: (database: DatabaseSync) => T): T {
  const folder = join(state, KEPT_IN);
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => /^[0-9a-f]+\.sqlite$/.test(name)) : [];
  const [file] = files;
  if (file === undefined || files.length > 1) {
    throw new Refusal(`${shown(state)} holds ${files.length} databases, where one is expected. Move it away, and start again.`);
  }
  const database = new DatabaseSync(join(folder, file), { timeout: BUSY_MS });
  try {
    return use(database);
  } finally {
    database.close();
  }
}
