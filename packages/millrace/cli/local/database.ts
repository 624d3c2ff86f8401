import { createHash, createHmac } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Refusal } from "../command.ts";
import { isOfDisk } from "../disk.ts";
import { DATABASE, type Migration, type Project } from "../project.ts";
import { configOf, type D1, readConfig } from "../wiring/config.ts";
import { insertToken } from "./token.ts";
import { shown } from "./wrangler.ts";

const BUSY_MS = 5_000;

/** Where wrangler keeps local databases, in the folder that it is told to persist to. */
const KEPT_IN = "v3/d1/miniflare-D1DatabaseObject";

/** The database of a Worker: its binding in the configuration, and its migrations. */
type Of = Pick<Project, "config" | "env" | "migrations">;

/**
 * Applies the migrations that a local database lacks, and stores the token in it. No engine may have it open. The database is read and
 * written as a file: each of wrangler's commands would start a runtime, for seconds.
 */
export async function prepareDatabase(folder: string, of: Of, token: string, tenant?: string): Promise<void> {
  const state = join(folder, "state");
  if (!existsSync(state)) {
    // The folder appears complete or not at all.
    const making = join(folder, "state.new");
    rmSync(making, { recursive: true, force: true });
    applyLocally(making, of);
    renameSync(making, state);
  } else applyLocally(state, of);
  open(fileOf(state, of), (database) => database.exec(insertToken(token, tenant)));
}

/** The migrations that a local database lacks: all where there is no database yet. */
export function missingLocally(state: string, of: Of): Migration[] {
  const file = fileOf(state, of);
  const all = of.migrations.files();
  return existsSync(file) ? open(file, (database) => missingIn(database, all)) : all;
}

/** Applies the migrations that a local database lacks; wrangler finds them in its list. Errors: a `Refusal` that names the migration. */
export function applyLocally(state: string, of: Of): void {
  const file = fileOf(state, of);
  mkdirSync(dirname(file), { recursive: true });
  open(file, (database) => {
    const missing = missingIn(database, of.migrations.files());
    requireNoTransactions(missing);
    for (const { name, file: migration, table } of missing) {
      try {
        database.exec(`BEGIN; ${readFileSync(migration, "utf8")}\n;`);
        database.prepare(`INSERT INTO "${table}" (name) VALUES (?)`).run(name);
        database.exec("COMMIT");
      } catch (error) {
        if (database.isTransaction) database.exec("ROLLBACK");
        if (isOfDisk(error)) throw error;
        throw new Refusal(
          `The migration ${shown(migration)} failed: ${error instanceof Error ? error.message : error}. Correct it, and start again.`,
        );
      }
    }
  });
}

/** Comments, texts and quoted names. */
const QUOTED = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]/g;
const TRIGGER = /\bCREATE\s+(?:TEMP\w*\s+)?TRIGGER\b[\s\S]*?;\s*END\s*(?=;|$)/gi;

/** A migration is one transaction. Errors: a `Refusal` for a migration that ends it or begins another: half of it would be applied. */
export function requireNoTransactions(missing: readonly Migration[]): void {
  for (const { file } of missing) {
    // The length stays the same for the line.
    const blank = (text: string) => text.replaceAll(/[^\n]/g, " ");
    const sql = readFileSync(file, "utf8").replaceAll(QUOTED, blank).replaceAll(TRIGGER, blank);
    const found = /(?:^|;)\s*(BEGIN|COMMIT|END|ROLLBACK|SAVEPOINT|RELEASE)\b/i.exec(sql);
    if (!found) continue;
    const [whole, word = ""] = found;
    const line = sql.slice(0, found.index + whole.length).split("\n").length;
    throw new Refusal(
      `The migration ${shown(file)}:${line} has ${word.toUpperCase()}, but it is applied in one transaction. Remove BEGIN, COMMIT and their relatives.`,
    );
  }
}

function missingIn(database: DatabaseSync, all: readonly Migration[]): Migration[] {
  const tables = new Set(all.map(({ table }) => table));
  const applied = [...tables].flatMap((table) => {
    // As wrangler makes it.
    database.exec(`CREATE TABLE IF NOT EXISTS "${table}" (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`);
    return database
      .prepare(`SELECT name FROM "${table}"`)
      .all()
      .map(({ name }) => `${table} ${name}`);
  });
  return all.filter(({ name, table }) => !applied.includes(`${table} ${name}`));
}

/** The binding of the engine's database. Errors: a `Refusal` where the configuration has none. */
export function boundIn({ config, env }: Of): D1 {
  const { d1_databases = [] } = configOf(readConfig(config), env) ?? {};
  const bound = d1_databases.find(({ binding }) => binding === DATABASE);
  if (bound) return bound;
  const [other] = d1_databases;
  const also = other ? ` It may name the same database as ${other.binding}.` : "";
  throw new Refusal(`${shown(config)} binds no database as ${DATABASE}. Add one to d1_databases.${also}`);
}

/** The file in which the local runtime keeps a Worker's database. */
function fileOf(state: string, of: Of): string {
  const { preview_database_id, database_id, binding } = boundIn(of);
  return join(state, KEPT_IN, `${objectOf(preview_database_id ?? database_id ?? binding)}.sqlite`);
}

/** The id of the object that keeps a database locally, which is the name of its file: the runtime derives it from the database's own id. */
function objectOf(databaseId: string): string {
  const key = createHash("sha256").update("miniflare-D1DatabaseObject").digest();
  const signed = (what: string | Buffer) => createHmac("sha256", key).update(what).digest().subarray(0, 16);
  const name = signed(databaseId);
  return Buffer.concat([name, signed(name)]).toString("hex");
}

/**
 * Uses a local database, and closes it; waits while a running engine writes. Without `of` it is the state's only database. Errors: a
 * `Refusal` where there is none.
 */
export function useDatabase<T>(state: string, use: (database: DatabaseSync) => T, of?: Of): T {
  const folder = join(state, KEPT_IN);
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => /^[0-9a-f]+\.sqlite$/.test(name)) : [];
  const file = of ? fileOf(state, of) : join(folder, files[0] ?? "");
  if (files.length === 0 || !existsSync(file) || (!of && files.length > 1)) {
    throw new Refusal(`${shown(state)} holds ${files.length} databases, where one is expected. Move it away, and start again.`);
  }
  return open(file, use);
}

function open<T>(file: string, use: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(file, { timeout: BUSY_MS });
  try {
    return use(database);
  } finally {
    database.close();
  }
}
