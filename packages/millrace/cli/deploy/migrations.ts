import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { Refusal } from "../command.ts";
import { boundIn } from "../local/database.ts";
import { closedFolder } from "../local/engine-process.ts";
import { takeTurn } from "../local/folder-lock.ts";
import { shown } from "../local/wrangler.ts";
import { DATABASE, ENGINE_MIGRATIONS, type Migration, type Project } from "../project.ts";
import { configOf, readConfig } from "../wiring/config.ts";
import type { Account } from "./account.ts";
import { type Run, runProjectWrangler } from "./resources.ts";

/** Locks the project, so that no second deployment starts. Returns a function that releases the lock. */
export function lockDeployment(project: Project): () => void {
  const folder = join(project.stateFolder, "deploy");
  closedFolder(project.stateFolder);
  closedFolder(folder);
  return takeTurn(folder, `Another deployment or remote migration runs in ${project.root}.`);
}

/** A table with one row, which contains the name of the Worker that uses the database. */
const OWNER = "millrace_worker";

interface Remote {
  /** The migrations that the remote database lacks. */
  migrations: Migration[];
  /** The Worker that uses the remote database. Undefined before the first deployment. */
  owner: string | undefined;
}

export async function remoteDatabase(account: Account, project: Project, database: string | undefined): Promise<Remote> {
  const files = project.migrations.files();
  if (database === undefined) return { migrations: files, owner: undefined };
  const namesIn = async (sql: string) => (await account.query<{ name: string }>(database, sql)).map(({ name }) => name);
  const tables = await namesIn("SELECT name FROM sqlite_master WHERE type = 'table'");
  const applied = new Set<string>();
  for (const table of new Set(files.map((one) => one.table).filter((one) => tables.includes(one))))
    for (const name of await namesIn(`SELECT name FROM "${table}"`)) applied.add(`${table}/${name}`);
  const [owner] = tables.includes(OWNER) ? await namesIn(`SELECT name FROM ${OWNER}`) : [];
  return { migrations: files.filter(({ table, name }) => !applied.has(`${table}/${name}`)), owner };
}

/** Records the Worker that uses a remote database. Errors: a `Refusal` if a concurrent deployment recorded a different Worker. */
export async function claimDatabase(account: Account, database: string, { name: worker, ...of }: Claim): Promise<void> {
  const name = `'${worker.replaceAll("'", "''")}'`;
  await account.query(
    database,
    `CREATE TABLE IF NOT EXISTS ${OWNER} (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL) STRICT;
     INSERT INTO ${OWNER} (id, name) VALUES (1, ${name}) ON CONFLICT (id) DO UPDATE SET name = ${name} WHERE ${of.takes ? "true" : "false"};`,
  );
  const [row] = await account.query<{ name: string }>(database, `SELECT name FROM ${OWNER}`);
  assertOwner(of.database, row?.name, worker);
}

interface Claim {
  name: string;
  database: string;
  /** If true, a different Worker that is recorded as the user of the database is replaced. */
  takes: boolean;
}

export function assertOwner(database: string, owner: string | undefined, worker: string): void {
  if (owner === undefined || owner === worker) return;
  throw new Refusal(
    `The database "${database}" belongs to the Worker "${owner}". Two Workers would execute each other's instances. Set another "database_name". ` +
      `If "${owner}" no longer runs, repeat the command with --take-database.`,
  );
}

/**
 * Applies migrations to a remote database with wrangler. A temporary configuration names the engine's folder of migrations. `left` returns
 * the migrations that are missing after a failure. Errors: a `Refusal` that names the first missing migration.
 */
export async function applyRemotely(
  project: Project,
  missing: readonly Migration[],
  left: () => Promise<Migration[]>,
  how: Run = {},
): Promise<void> {
  try {
    await apply(project, missing, how);
  } catch (error) {
    const [first] = error instanceof Refusal && !how.stop?.aborted ? await left().catch(() => []) : [];
    throw first === undefined ? error : new Refusal(`The migration ${shown(first.file)} is not applied. ${(error as Refusal).message}`);
  }
}

async function apply(project: Project, missing: readonly Migration[], how: Run): Promise<void> {
  const args = ["d1", "migrations", "apply", project.database ?? DATABASE, "--remote"];
  const { folder, table } = ENGINE_MIGRATIONS;
  if (missing.some((one) => one.table === table)) {
    const { migrations_pattern: _, ...bound } = boundIn(project);
    const { account_id } = configOf(readConfig(project.config), project.env) ?? {};
    const config = join(project.stateFolder, "migrate/wrangler.json");
    closedFolder(project.stateFolder);
    mkdirSync(dirname(config), { recursive: true });
    const migrations_dir = relative(dirname(config), folder).replaceAll("\\", "/");
    const { env, name } = project;
    const own = { name, account_id, d1_databases: [{ ...bound, migrations_dir, migrations_table: table }] };
    // The name of the environment is passed, so that wrangler reads its login from the .env files of this environment.
    const all = { ...own, compatibility_date: "2026-10-01", ...(env !== undefined && { env: { [env]: own } }) };
    writeFileSync(config, JSON.stringify(all));
    await runProjectWrangler(project, "apply the engine's migrations", args, { ...how, config });
  }
  if (missing.some((one) => one.table !== table)) await runProjectWrangler(project, "apply the migrations", args, how);
}
