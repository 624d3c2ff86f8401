import { existsSync } from "node:fs";
import { join } from "node:path";
import { agreed, besideOptions, type Call, Misuse, optionIn, runCommand, type Usage } from "./command.ts";
import { applyRemotely, lockDeployment } from "./deploy/migrations.ts";
import { applyLocally, boundIn, missingLocally, requireNoTransactions } from "./local/database.ts";
import { closedFolder } from "./local/engine-process.ts";
import { requireUnlocked } from "./local/folder-lock.ts";
import { runWrangler, shown } from "./local/wrangler.ts";
import { MISUSED, wantsHelp } from "./options.ts";
import { cellsOf, DATABASE, findProject, type Migration, type Project } from "./project.ts";
import { paint, say } from "./terminal.ts";

const USAGE: Usage = {
  text:
    "Usage: npx millrace migrate [--remote | --persist-to FOLDER] [--yes] [--dry-run] [--config FILE] [--env NAME]. Shows which migrations of the engine and of the Worker are applied, " +
    "and applies the others: to the database of `millrace dev`, or with --remote to the deployed one, after a question. " +
    "--persist-to selects the state of another local engine; `wrangler dev` uses .wrangler/state. --dry-run only prints the migrations.",
  values: ["--persist-to", "--config", "--env"],
  flags: ["--remote", "--yes", "--dry-run"],
};

async function migrate({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [beside] = besideOptions(args, USAGE);
  if (beside !== undefined) throw new Misuse(`migrate has no "${beside}". ${USAGE.text}`);
  const project = findProject({ config: optionIn(args, "--config"), env: optionIn(args, "--env") });
  const isRemote = args.includes("--remote");
  const persistTo = optionIn(args, "--persist-to");
  if (isRemote && persistTo !== undefined) throw new Misuse("--persist-to names a local state: leave it out, or --remote.");
  const state = persistTo ?? join(project.stateFolder, "state");
  const cells: { cell: Project; lacks: Migration[] }[] = [];
  for (const cell of cellsOf(project)) cells.push({ cell, lacks: isRemote ? await missingRemotely(cell) : missingLocally(state, cell) });
  for (const { cell, lacks } of cells) {
    for (const one of cell.migrations.files()) {
      const status = lacks.some(({ file }) => file === one.file) ? paint("yellow", "to apply") : paint("dim", "applied ");
      say(`  ${status}  ${shown(one.file)}${cells.length > 1 ? `  ${cell.database ?? DATABASE}` : ""}`);
    }
  }
  const missing = cells.flatMap(({ lacks }) => lacks);
  const where = isRemote
    ? `the deployed database ${boundIn(project).database_name ?? DATABASE}`
    : `the database of ${persistTo ?? "`millrace dev`"}`;
  if (missing.length === 0) say(`No migration is missing: ${where} is up to date.`);
  if (missing.length === 0 || args.includes("--dry-run")) return 0;
  requireNoTransactions(missing);
  if (isRemote && !args.includes("--yes")) {
    if (!process.stdin.isTTY) {
      say("The migrations are not applied yet. To apply: npx millrace migrate --remote --yes");
      return MISUSED;
    }
    if (!(await agreed(`Apply ${missing.length} to ${where}?`, stop))) return 1;
  }
  if (isRemote) {
    const release = lockDeployment(project);
    try {
      for (const { cell, lacks } of cells) await applyRemotely(cell, lacks, () => missingRemotely(cell));
    } finally {
      release();
    }
  } else if (persistTo !== undefined) for (const { cell } of cells) applyLocally(state, cell);
  else {
    // A local engine that is running applies missing migrations at the next restart of the engine.
    requireUnlocked(project.stateFolder);
    closedFolder(project.stateFolder);
    for (const { cell } of cells) applyLocally(state, cell);
  }
  say(`${paint("green", "●")} Applied ${missing.length} to ${where}.`);
  return 0;
}

const placeOf = ({ config, env }: Project) => ["--remote", "--config", config, ...(env === undefined ? [] : ["--env", env])];

async function missingRemotely(project: Project): Promise<Migration[]> {
  const all = project.migrations.files();
  const tables = [...new Set(all.map(({ table }) => table))];
  const names = tables.map((table) => `'${table.replaceAll("'", "''")}'`).join(", ");
  const there = await query(project, `SELECT name FROM sqlite_master WHERE type = 'table' AND name IN (${names})`);
  const applied = new Set<string>();
  for (const table of there) for (const name of await query(project, `SELECT name FROM "${table}"`)) applied.add(`${table} ${name}`);
  return all.filter(({ name, table }) => !applied.has(`${table} ${name}`));
}

/** Runs a statement on the deployed database and returns the column `name` of its rows. */
async function query(project: Project, sql: string): Promise<string[]> {
  const command = ["d1", "execute", project.database ?? DATABASE, ...placeOf(project), "--yes", "--json", "--command", sql];
  const said = await runWrangler(project, logsOf(project), "read the deployed database", command);
  const [first] = JSON.parse(said.slice(said.indexOf("["))) as { results: { name: string }[] }[];
  return first?.results.map(({ name }) => name) ?? [];
}

const logsOf = ({ root, stateFolder }: Project) => (existsSync(stateFolder) ? stateFolder : join(root, ".wrangler"));

await runCommand(migrate);
