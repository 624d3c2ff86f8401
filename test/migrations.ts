import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const ROOT = join(import.meta.dirname, "..");

/** The folders of the migrations: the engine's, and the app's. */
export const MIGRATION_FOLDERS = ["packages/millrace/migrations", "migrations"].map((folder) => join(ROOT, folder));

/** Opens a database, in memory by default, and applies all migrations of these folders to it. */
export function openMigrated(file = ":memory:", folders: readonly string[] = MIGRATION_FOLDERS): DatabaseSync {
  const database = new DatabaseSync(file);
  for (const folder of folders) for (const name of readdirSync(folder).sort()) database.exec(readFileSync(join(folder, name), "utf8"));
  return database;
}
