import { existsSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { useDatabase } from "../local/database.ts";
import { closedFolder } from "../local/engine-process.ts";
import { DATABASE, type Migration, type Project } from "../project.ts";
import { configOf, readConfig } from "../wiring/config.ts";
import type { Account } from "./account.ts";
import { runProjectWrangler } from "./wrangler.ts";

/** The migrations that a remote database lacks; all of them where it does not exist. */
export async function pendingRemotely(account: Account, project: Project, database: string | undefined): Promise<Migration[]> {
  const files = project.migrations.files();
  if (database === undefined) return files;
  const tables = (await account.query<{ name: string }>(database, "SELECT name FROM sqlite_master WHERE type = 'table'")).map(
    (row) => row.name,
  );
  const applied = new Set<string>();
  for (const table of tablesOf(files).filter((one) => tables.includes(one)))
    for (const { name } of await account.query<{ name: string }>(database, `SELECT name FROM "${table}"`)) applied.add(`${table}/${name}`);
  return files.filter(({ table, name }) => !applied.has(`${table}/${name}`));
}

/** The migrations that the local database lacks; none where there is no local database. */
export function pendingLocally(project: Project): Migration[] {
  const state = join(project.stateFolder, "state");
  if (!existsSync(state)) return [];
  const files = project.migrations.files();
  const applied = useDatabase(state, (database) => {
    const isThere = database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
    const tables = tablesOf(files).filter((table) => isThere.get(table) !== undefined);
    return new Set(
      tables.flatMap((table) =>
        database
          .prepare(`SELECT name FROM "${table}"`)
          .all()
          .map(({ name }) => `${table}/${name}`),
      ),
    );
  });
  return files.filter(({ table, name }) => !applied.has(`${table}/${name}`));
}

const tablesOf = (files: readonly Migration[]) => [...new Set(files.map(({ table }) => table))];

/**
 * Applies migrations to a remote database by wrangler. The engine's migrations are in another folder than the project's: a temporary
 * configuration names it.
 */
export async function applyRemotely(project: Project, pending: readonly Migration[], account: string, stop: AbortSignal): Promise<void> {
  const args = ["d1", "migrations", "apply", DATABASE, "--remote"];
  const bound = configOf(readConfig(project.config), project.env)?.d1_databases?.find(({ binding }) => binding === DATABASE);
  const own = bound?.migrations_table ?? "d1_migrations";
  for (const table of tablesOf(pending)) {
    const file = pending.find((one) => one.table === table)?.file ?? "";
    if (table === own) await runProjectWrangler(project, "apply the migrations", args, { account, stop });
    else {
      closedFolder(project.stateFolder);
      const config = join(project.stateFolder, "migrations.json");
      const { migrations_pattern: _, ...database } = {
        ...bound,
        migrations_dir: relative(project.stateFolder, dirname(file)),
        migrations_table: table,
      };
      writeFileSync(config, JSON.stringify({ name: project.name, d1_databases: [database] }));
      await runProjectWrangler(project, "apply the engine's migrations", args, { account, stop, config });
    }
  }
}
