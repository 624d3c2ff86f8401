import { createHash, createHmac } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Refusal } from "../command.ts";
import { cellsOf, DATABASE, type Migration, type Project } from "../project.ts";
import { isOfDisk } from "../terminal.ts";
import { configOf, type D1, readConfig } from "../wiring/config.ts";
import { insertToken } from "./token.ts";
import { shown } from "./wrangler.ts";

const BUSY_MS = 5_000;

/** The folder of local databases, below the folder that wrangler persists to. */
const KEPT_IN = "v3/d1/miniflare-D1DatabaseObject";

type Of = Pick<Project, "config" | "env" | "migrations" | "database">;

/**
 * Applies the missing migrations to the local databases of all cells, and stores the token in the first. The engine must not be running.
 * The database files are opened directly, because a command of wrangler would start a runtime, which takes seconds.
 */
export async function prepareDatabase(folder: string, of: Of, token: string, tenant?: string): Promise<void> {
  const state = join(folder, "state");
  if (!existsSync(state)) {
    // The state is created in a temporary folder, which is renamed at the end, so that an incomplete state folder never exists.
    const making = join(folder, "state.new");
    rmSync(making, { recursive: true, force: true });
    for (const cell of cellsOf(of)) applyLocally(making, cell);
    renameSync(making, state);
  } else for (const cell of cellsOf(of)) applyLocally(state, cell);
  open(fileOf(state, of), (database) => database.exec(insertToken(token, tenant)));
}

export function missingLocally(state: string, of: Of): Migration[] {
  const file = fileOf(state, of);
  const all = of.migrations.files();
  return existsSync(file) ? open(file, (database) => missingIn(database, all)) : all;
}

/**
 * Applies the missing migrations to a local database, and records them where wrangler looks. Errors: a `Refusal` that names the failed
 * migration.
 */
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

const QUOTED = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]/g;
const TRIGGER = /\bCREATE\s+(?:TEMP\w*\s+)?TRIGGER\b[\s\S]*?;\s*END\s*(?=;|$)/gi;

/**
 * Refuses migrations that control transactions, because each migration runs in one transaction. Errors: a `Refusal` for a migration with
 * its own BEGIN or COMMIT, which could be applied only in part.
 */
export function requireNoTransactions(missing: readonly Migration[]): void {
  for (const { file } of missing) {
    // Line breaks are not replaced, so that line numbers do not change.
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
    // The statement with which wrangler creates its table of applied migrations.
    database.exec(`CREATE TABLE IF NOT EXISTS "${table}" (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`);
    return database
      .prepare(`SELECT name FROM "${table}"`)
      .all()
      .map(({ name }) => `${table} ${name}`);
  });
  return all.filter(({ name, table }) => !applied.includes(`${table} ${name}`));
}

/** The binding of the database of a cell. Errors: a `Refusal` if the configuration has none. */
export function boundIn({ config, env, database = DATABASE }: Omit<Of, "migrations">): D1 {
  const { d1_databases = [] } = configOf(readConfig(config), env) ?? {};
  const bound = d1_databases.find(({ binding }) => binding === database);
  if (bound) return bound;
  const [other] = database === DATABASE ? d1_databases : [];
  const also = other ? ` It may name the same database as ${other.binding}.` : "";
  throw new Refusal(`${shown(config)} binds no database as ${database}. Add one to d1_databases.${also}`);
}

function fileOf(state: string, of: Of): string {
  const { preview_database_id, database_id, binding } = boundIn(of);
  return join(state, KEPT_IN, `${objectOf(preview_database_id ?? database_id ?? binding)}.sqlite`);
}

/**
 * The id of the Durable Object of a local database. This id is the name of the database file, and the runtime derives the id from the id of
 * the database.
 */
function objectOf(databaseId: string): string {
  const key = createHash("sha256").update("miniflare-D1DatabaseObject").digest();
  const signed = (what: string | Buffer) => createHmac("sha256", key).update(what).digest().subarray(0, 16);
  const name = signed(databaseId);
  return Buffer.concat([name, signed(name)]).toString("hex");
}

/**
 * Opens a local database, passes it to a function, and closes the database. Waits if the database is locked. Without `of`, the state must
 * have exactly one database. Errors: a `Refusal` if the database does not exist.
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
