import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { insertToken } from "./token.ts";
import { ROOT, runWrangler } from "./wrangler.ts";

const MIGRATIONS = join(ROOT, "migrations");

/** Brings the local database up to date and makes the token good in it. Both change nothing where nothing is to do. */
export async function prepareDatabase(folder: string, config: string, token: string): Promise<void> {
  const state = join(folder, "state");
  const local = ["--local", "--config", config, "--persist-to", state];
  if (!existsSync(state)) return makeDatabase(folder, local, token);
  await runWrangler(folder, "apply the migrations", ["d1", "migrations", "apply", "DB", ...local]);
  await runWrangler(folder, "store the token", ["d1", "execute", "DB", "--yes", ...local, "--command", insertToken(token)]);
}

/**
 * A new database in one batch, which is there as a whole or not at all. `migrations apply` starts a runtime for each file, which
 * takes most of a first start. It finds them in its own list afterwards, and goes on from there.
 */
async function makeDatabase(folder: string, local: readonly string[], token: string): Promise<void> {
  const file = join(folder, "new-database.sql");
  // As wrangler makes it.
  const list = `CREATE TABLE d1_migrations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL);`;
  const migrations = readdirSync(MIGRATIONS)
    .sort()
    .map((name) => `${readFileSync(join(MIGRATIONS, name), "utf8")}\nINSERT INTO d1_migrations (name) VALUES ('${name}');`);
  writeFileSync(file, [list, ...migrations, `${insertToken(token)};`].join("\n"), { mode: 0o600 });
  try {
    await runWrangler(folder, "make the database", ["d1", "execute", "DB", "--yes", ...local, "--file", file]);
  } finally {
    rmSync(file);
  }
}

/** Bundles the Worker once, so that editing its sources does not restart it. */
export async function bundle(folder: string, config: string): Promise<void> {
  await runWrangler(folder, "bundle the Worker", ["deploy", "--dry-run", "--outdir", join(folder, "bundle"), "--config", config]);
}

/** What to tell `wrangler dev` so that it runs that bundle. */
export function bundled(folder: string): string[] {
  return [join(folder, "bundle", "worker.js"), "--no-bundle"];
}

/** Loopback only, no questions, no debugger's port. */
export function devArgs(options: {
  folder: string;
  port: number;
  secrets: string;
  config: string;
  vars: Record<string, string>;
}): string[] {
  return [
    ...["--config", options.config, "--env-file", options.secrets, "--persist-to", join(options.folder, "state")],
    ...["--ip", "127.0.0.1", "--port", String(options.port), "--inspector-port", "0", "--show-interactive-dev-session=false"],
    ...Object.entries(options.vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
  ];
}
