import { existsSync, globSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, posix, resolve } from "node:path";
import { Refusal } from "./command.ts";
import { packageFolder } from "./local/doors.ts";
import { installWrangler, ROOT, shown } from "./local/wrangler.ts";
import { type Config, configOf, formatOf, readConfig } from "./wiring/config.ts";

export const DATABASE = "DB";

/** The names of configuration files, in the order in which wrangler looks for them. */
const CONFIGS = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
const DEFAULT_MIGRATIONS = "migrations";

export interface Project {
  readonly root: string;
  readonly config: string;
  readonly format: "jsonc" | "toml";
  /** The name of the Worker, as wrangler composes it for the selected environment. */
  readonly name: string;
  /** The main source file, relative to the root, with `/`. */
  readonly main: string;
  readonly env?: string;
  readonly migrations: Migrations;
  /** The binding of the database of one cell. Default: `DB`. */
  readonly database?: string;
  /** The path of `.millrace` in the root, the folder with the state of the local engine. */
  readonly stateFolder: string;
  /** The path of `.dev.vars`. */
  readonly secrets: string;
  /** The path of the project's wrangler. Errors: a `Refusal` if wrangler is not installed. */
  readonly wrangler: string;
}

export interface Migrations {
  readonly folders: readonly string[];
  /** The migrations of the engine, followed by the migrations of the project, in the order in which wrangler applies them. */
  files(): Migration[];
}

export interface Migration {
  readonly name: string;
  readonly file: string;
  /** The table in which wrangler records an applied migration. */
  readonly table: string;
}

export interface ProjectOptions {
  /** The path of a configuration file, which is used instead of the nearest configuration file. */
  config?: string | undefined;
  env?: string | undefined;
  /** The folder in which the search for a configuration file starts. Default: the current folder. */
  from?: string;
}

/** Finds the configuration file in a folder, or in the nearest parent folder with a configuration file. */
export function nearestConfig(from: string): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const found = CONFIGS.map((name) => join(folder, name)).find((file) => existsSync(file));
    if (found !== undefined || folder === dirname(folder)) return found;
  }
}

/** The project of the current folder. Errors: a `Refusal` if the configuration is missing or cannot be read. */
export function findProject({ config, env, from = process.cwd() }: ProjectOptions = {}): Project {
  if (config !== undefined && !existsSync(config))
    throw new Refusal(`There is no file ${config}: --config names the wrangler.jsonc of a Worker.`);
  const found = config ?? nearestConfig(from);
  if (found !== undefined) return projectAt(resolve(found), env);
  throw new Refusal(
    `There is no wrangler.jsonc in ${resolve(from)} or above it. Change to the folder of your Worker, pass --config FILE, or make a Worker with: npx millrace init`,
  );
}

export const checkout = () => projectAt(join(ROOT, "wrangler.jsonc"));

/**
 * Reads the project that a configuration file describes. Errors: a `Refusal` if the file cannot be read or does not have the environment.
 */
export function projectAt(config: string, env?: string): Project {
  const root = dirname(config);
  const read = configOf(readConfig(config), env);
  if (read === undefined)
    throw new Refusal(`${shown(config)} has no environment "${env}". Add it under "env", empty, then run: npx millrace init --env ${env}`);
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

/** The project with the database of each cell, whose number is the variable `CELLS`. */
export function cellsOf<Of extends Pick<Project, "config" | "env" | "database">>(of: Of): Of[] {
  const count = Number(configOf(readConfig(of.config), of.env)?.vars?.CELLS ?? 1);
  const others = Array.from({ length: Math.max(0, count - 1) || 0 }, (_, index) => `${DATABASE}_${index + 2}`);
  return [of, ...others.map((database): Of => Object.assign(Object.create(of), { database }))];
}

export const sourcesOf = ({ root, main }: Pick<Project, "root" | "main">) => join(root, posix.dirname(main));

export function mainOf({ main = "src/index.ts" }: Config): string {
  return posix.normalize(main.replaceAll("\\", "/"));
}

/** The path of the wrangler that a script in the folder would import. Errors: a `Refusal` with the command that installs wrangler. */
export function wranglerOf(root: string): string {
  try {
    const manifest = createRequire(join(root, "package.json")).resolve("wrangler/package.json");
    return join(dirname(manifest), "bin/wrangler.js");
  } catch {
    throw new Refusal(`wrangler is not installed in ${root}. Install it there: ${installWrangler(root)}`);
  }
}

/**
 * The engine's migrations have their own table, so that the names of a project's migrations cannot collide with the names of the engine's
 * migrations.
 */
export const ENGINE_MIGRATIONS = { folder: join(packageFolder(), "migrations"), table: "millrace_migrations" };

/** Finds the migrations as wrangler does: by the folder and the pattern of the binding `DB`. */
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

/** Expands the alternatives `{a,b}` in a file pattern. */
function choicesOf(pattern: string): string[] {
  const [, before = "", choices = "", after = ""] = /^([^{]*)\{([^{}]*)\}(.*)$/s.exec(pattern) ?? [];
  return choices === "" ? [pattern] : choices.split(",").flatMap((choice) => choicesOf(posix.normalize(`${before}${choice}${after}`)));
}

/** Compares migration paths as wrangler does: by path segment. Numeric prefixes are compared by value, other text by code unit. */
function comparePaths(one: readonly string[], other: readonly string[]): number {
  const at = one.findIndex((part, index) => part !== other[index]);
  const [a, b] = [one[at], other[at]];
  if (a === undefined || b === undefined) return one.length - other.length;
  const [m, n] = [a, b].map((part) => Number.parseInt(part.split("_")[0] ?? "", 10));
  const [left, right] = [m ?? Number.NaN, n ?? Number.NaN].map((number) => (Number.isFinite(number) ? number : Number.POSITIVE_INFINITY));
  if (left !== right) return (left ?? 0) < (right ?? 0) ? -1 : 1;
  return a < b ? -1 : 1;
}
