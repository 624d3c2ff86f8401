import { existsSync, globSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, posix, resolve } from "node:path";
import { Refusal } from "./command.ts";
import { packageFolder } from "./local/doors.ts";
import { ROOT, shown } from "./local/wrangler.ts";
import { type Config, configOf, formatOf, readConfig } from "./wiring/config.ts";

/** The binding of the engine's database. */
export const DATABASE = "DB";

/** The names that wrangler looks for, in its order. */
const CONFIGS = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
const DEFAULT_MIGRATIONS = "migrations";

/** A Worker that a command works in: the folder of its configuration, and the tools that the folder has. */
export interface Project {
  /** The folder of the configuration. */
  readonly root: string;
  /** The path of the configuration. */
  readonly config: string;
  readonly format: "jsonc" | "toml";
  /** The Worker's name; of an environment, the name that wrangler gives it. */
  readonly name: string;
  /** The Worker's first source file, relative to the root, with `/`. */
  readonly main: string;
  /** The environment of the configuration, where one is named. */
  readonly env?: string;
  /** Folders with migrations of the database, and the migrations, in the order in which they are applied. */
  readonly migrations: Migrations;
  /** `.millrace` in the root: the state of the local engine. */
  readonly stateFolder: string;
  /** The secrets of the local engine. */
  readonly secrets: string;
  /** The path of the project's own wrangler. Errors: a `Refusal` with the line that installs it. */
  readonly wrangler: string;
}

export interface Migrations {
  readonly folders: readonly string[];
  /** Those of the engine, then those of the project, each under the name that wrangler records. */
  files(): Migration[];
}

export interface Migration {
  readonly name: string;
  readonly file: string;
  /** The table that records it as applied. */
  readonly table: string;
}

/** What a command's options say of the project. */
export interface ProjectOptions {
  /** A configuration, instead of the nearest one. */
  config?: string | undefined;
  env?: string | undefined;
  /** Default: the current folder. */
  from?: string;
}

/** The configuration in a folder or in the nearest folder above it; undefined where there is none. */
export function nearestConfig(from: string): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const found = CONFIGS.map((name) => join(folder, name)).find((file) => existsSync(file));
    if (found !== undefined || folder === dirname(folder)) return found;
  }
}

/** The project of the current folder. Errors: a `Refusal` where no configuration is found, or where it cannot be read. */
export function findProject({ config, env, from = process.cwd() }: ProjectOptions = {}): Project {
  if (config !== undefined && !existsSync(config))
    throw new Refusal(`There is no file ${config}: --config names the wrangler.jsonc of a Worker.`);
  const found = config ?? nearestConfig(from);
  if (found !== undefined) return projectAt(resolve(found), env);
  throw new Refusal(
    `There is no wrangler.jsonc in ${resolve(from)} or above it. Change to the folder of your Worker, pass --config FILE, or make a Worker with: npx millrace init`,
  );
}

/** The app of this checkout. */
export const checkout = () => projectAt(join(ROOT, "wrangler.jsonc"));

/** The project of a configuration. Errors: a `Refusal`. */
export function projectAt(config: string, env?: string): Project {
  const root = dirname(config);
  const read = configOf(readConfig(config), env);
  if (read === undefined) throw new Refusal(`${shown(config)} has no environment "${env}" under "env".`);
  return {
    ...{ root, config, format: formatOf(config), name: read.name ?? "worker", main: mainOf(read) },
    ...(env !== undefined && { env }),
    migrations: migrationsOf(root, read),
    stateFolder: join(root, ".millrace"),
    secrets: join(root, ".dev.vars"),
    get wrangler() {
      return wranglerOf(root);
    },
  };
}

/** The folder of a project's own sources: that of its first source file. */
export const sourcesOf = ({ root, main }: Pick<Project, "root" | "main">) => join(root, posix.dirname(main));

/** The first source file that a configuration names, as a path below its folder. */
export function mainOf({ main = "src/index.ts" }: Config): string {
  return posix.normalize(main.replaceAll("\\", "/"));
}

/** The path of the wrangler that a folder's programs get. Errors: a `Refusal` with the line that installs it. */
export function wranglerOf(root: string): string {
  try {
    const manifest = createRequire(join(root, "package.json")).resolve("wrangler/package.json");
    return join(dirname(manifest), "bin/wrangler.js");
  } catch {
    throw new Refusal(`wrangler is not installed in ${root}. Install it there: npm install --save-dev wrangler`);
  }
}

/** The migrations of the engine have a table of their own, so that those of a project keep their names and their folder. */
export const ENGINE_MIGRATIONS = { folder: join(packageFolder(), "migrations"), table: "millrace_migrations" };

/** Finds the migrations of the engine, and those of the binding `DB` as wrangler does. */
function migrationsOf(root: string, { d1_databases = [] }: Config): Migrations {
  const bound = d1_databases.find(({ binding }) => binding === DATABASE);
  const dir = posix.normalize(bound?.migrations_dir ?? DEFAULT_MIGRATIONS).replace(/\/$/, "");
  const pattern = posix.normalize(bound?.migrations_pattern ?? `${dir}/*.sql`);
  const table = bound?.migrations_table ?? "d1_migrations";
  if (/^millrace_/i.test(table))
    throw new Refusal(
      `"migrations_table" of ${DATABASE} is "${table}", but tables with "millrace_" belong to the engine. Use "d1_migrations".`,
    );
  const folders = [...new Set(choicesOf(pattern).map((one) => posix.dirname(one).replace(/\/?\*.*$/, "") || "."))].map((one) =>
    join(root, one),
  );
  return {
    folders: [...folders, ENGINE_MIGRATIONS.folder],
    files: () => {
      const { folder, table: own } = ENGINE_MIGRATIONS;
      const ofEngine = globSync("*.sql", { cwd: folder })
        .toSorted()
        .map((name) => ({ name, file: join(folder, name), table: own }));
      const files = globSync(pattern, { cwd: root }).map((file) => file.replaceAll("\\", "/"));
      const named = files.map((file) => ({ name: posix.relative(dir, file), file: join(root, file), table }));
      return [...ofEngine, ...named.sort((one, other) => comparePaths(one.name.split("/"), other.name.split("/")))];
    },
  };
}

/** The patterns that a pattern with `{a,b}` stands for. */
function choicesOf(pattern: string): string[] {
  const [, before = "", choices = "", after = ""] = /^([^{]*)\{([^{}]*)\}(.*)$/s.exec(pattern) ?? [];
  return choices === "" ? [pattern] : choices.split(",").flatMap((choice) => choicesOf(posix.normalize(`${before}${choice}${after}`)));
}

/** Wrangler's order: part by part, numbers first and by their size, then by the characters. */
function comparePaths(one: readonly string[], other: readonly string[]): number {
  const at = one.findIndex((part, index) => part !== other[index]);
  const [a, b] = [one[at], other[at]];
  if (a === undefined || b === undefined) return one.length - other.length;
  const [m, n] = [a, b].map((part) => Number.parseInt(part.split("_")[0] ?? "", 10));
  const [left, right] = [m ?? Number.NaN, n ?? Number.NaN].map((number) => (Number.isFinite(number) ? number : Number.POSITIVE_INFINITY));
  if (left !== right) return (left ?? 0) < (right ?? 0) ? -1 : 1;
  return a < b ? -1 : 1;
}
