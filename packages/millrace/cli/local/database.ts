import { createHash, createHmac } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Refusal } from "../command.ts";
import { readConfig } from "../wiring/config.ts";
import { madeOnce } from "./made-once.ts";
import { insertToken } from "./token.ts";
import { ROOT, runWrangler, shown } from "./wrangler.ts";

const MIGRATIONS = join(ROOT, "migrations");

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
  if (!isUpToDate(state)) await runWrangler(folder, "apply the migrations", ["d1", "migrations", "apply", "DB", ...local(config, state)]);
  useDatabase(state, (database) => database.exec(insertToken(token)));
}

/** A copy that is there as a whole or not at all. */
async function copyNewDatabase(folder: string, config: string): Promise<void> {
  const made = await madeOnce("database", [MIGRATIONS, config], async (making) => makeDatabase(making, config));
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
  const database = new DatabaseSync(join(kept, `${objectOf(bound.database_id)}.sqlite`));
  try {
    // As wrangler makes it.
    database.exec(`CREATE TABLE d1_migrations (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL);`);
    for (const name of readdirSync(MIGRATIONS).sort()) {
      database.exec(readFileSync(join(MIGRATIONS, name), "utf8"));
      database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").run(name);
    }
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

const local = (config: string, state: string) => ["--local", "--config", config, "--persist-to", state];

function isUpToDate(state: string): boolean {
  const applied = useDatabase(state, (database) => database.prepare("SELECT name FROM d1_migrations").all());
  const names = new Set(applied.map(({ name }) => name));
  return readdirSync(MIGRATIONS).every((name) => names.has(name));
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
