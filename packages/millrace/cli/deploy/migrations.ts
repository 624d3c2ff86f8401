import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { useDatabase } from "../local/database.ts";
import { DATABASE, type Migration, type Project } from "../project.ts";
import { readConfig } from "../wiring/config.ts";
import type { Account } from "./account.ts";
import { runProjectWrangler } from "./wrangler.ts";

const ENGINE = [join(import.meta.dirname, "../../migrations"), join(import.meta.dirname, "../../../migrations")].find((one) =>
  existsSync(one),
);
const OWN_TABLE = "d1_migrations";
const ENGINE_TABLE = "millrace_migrations";

/** Migrations that a remote database lacks. */
export interface Migrations {
  engine: Migration[];
  own: Migration[];
}

/** The migrations that a remote database lacks; all of them where it does not exist. */
export async function pendingMigrations(account: Account, project: Project, database: string | undefined): Promise<Migrations> {
  const applied = async (table: string): Promise<string[]> => {
    if (database === undefined) return [];
    const [is] = await account.query(database, `SELECT name FROM sqlite_master WHERE type = 'table' AND name = '${table}'`);
    return is ? (await account.query<{ name: string }>(database, `SELECT name FROM ${table}`)).map(({ name }) => name) : [];
  };
  const [own, engine] = [await applied(OWN_TABLE), await applied(ENGINE_TABLE)];
  return pendingOf(project, own, engine);
}

/** The migrations that the local database lacks; none where there is no local database. */
export async function pendingLocally(project: Project): Promise<Migration[]> {
  const state = join(project.stateFolder, "state");
  if (!existsSync(state)) return [];
  const applied = (table: string) =>
    useDatabase(state, (database) => {
      const is = database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?").get(table);
      return is
        ? database
            .prepare(`SELECT name FROM ${table}`)
            .all()
            .map(({ name }) => String(name))
        : [];
    });
  const { engine, own } = pendingOf(project, applied(OWN_TABLE), applied(ENGINE_TABLE));
  return [...engine, ...own];
}

function pendingOf(project: Project, own: readonly string[], engine: readonly string[]): Migrations {
  const files =
    ENGINE === undefined
      ? []
      : readdirSync(ENGINE)
          .sort()
          .map((name) => ({ name, file: join(ENGINE, name) }));
  return {
    own: project.migrations.files().filter(({ name }) => !own.includes(name)),
    engine: files.filter(({ name }) => !engine.includes(name)),
  };
}

export async function applyMigrations(project: Project, pending: Migrations, account: string, stop: AbortSignal): Promise<void> {
  const args = ["d1", "migrations", "apply", DATABASE, "--remote"];
  if (pending.engine.length > 0 && ENGINE) {
    const [bound] = readConfig(project.config).d1_databases ?? [];
    mkdirSync(project.stateFolder, { recursive: true });
    const config = join(project.stateFolder, "migrations.json");
    const database = { ...bound, migrations_dir: relative(project.stateFolder, ENGINE), migrations_table: ENGINE_TABLE };
    writeFileSync(config, JSON.stringify({ name: project.name, d1_databases: [database] }));
    await runProjectWrangler({ ...project, config, env: undefined } as unknown as Project, "apply the engine's migrations", args, {
      account,
      stop,
    });
  }
  if (pending.own.length > 0) await runProjectWrangler(project, "apply the migrations", args, { account, stop });
}
