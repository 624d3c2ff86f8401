import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { boundIn } from "../local/database.ts";
import { closedFolder } from "../local/engine-process.ts";
import { DATABASE, ENGINE_MIGRATIONS, type Migration, type Project } from "../project.ts";
import { configOf, readConfig } from "../wiring/config.ts";
import type { Account } from "./account.ts";
import { type Run, runProjectWrangler } from "./wrangler.ts";

/** The migrations that a remote database lacks; all of them where it does not exist. */
export async function pendingRemotely(account: Account, project: Project, database: string | undefined): Promise<Migration[]> {
  const files = project.migrations.files();
  if (database === undefined) return files;
  const tables = (await account.query<{ name: string }>(database, "SELECT name FROM sqlite_master WHERE type = 'table'")).map(
    (row) => row.name,
  );
  const applied = new Set<string>();
  for (const table of new Set(files.map((one) => one.table).filter((one) => tables.includes(one))))
    for (const { name } of await account.query<{ name: string }>(database, `SELECT name FROM "${table}"`)) applied.add(`${table}/${name}`);
  return files.filter(({ table, name }) => !applied.has(`${table}/${name}`));
}

/**
 * Applies migrations to a remote database by wrangler. The engine's migrations are in another folder than the project's: a temporary
 * configuration names it.
 */
export async function applyRemotely(project: Project, missing: readonly Migration[], how: Run = {}): Promise<void> {
  const args = ["d1", "migrations", "apply", DATABASE, "--remote"];
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
    // With the environment's name, wrangler reads its login from the same .env files as for the project's configuration.
    const all = { ...own, compatibility_date: "2026-10-01", ...(env !== undefined && { env: { [env]: own } }) };
    writeFileSync(config, JSON.stringify(all));
    await runProjectWrangler(project, "apply the engine's migrations", args, { ...how, config });
  }
  if (missing.some((one) => one.table !== table)) await runProjectWrangler(project, "apply the migrations", args, how);
}
