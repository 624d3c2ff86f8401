import { cpSync, existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { parseEnv } from "node:util";
import { agreed, besideOptions, type Call, Misuse, optionIn, Refusal, runCommand, type Usage } from "./command.ts";
import { type Deployed, KEY } from "./deploy/resources.ts";
import { OLDEST_DATE } from "./doctor/configuration.ts";
import { beside, type Edit, isTooOpen } from "./init/beside.ts";
import { edited, linesOf, refuseNull } from "./init/configuration.ts";
import { readText, writeAll } from "./init/files.ts";
import { unifiedDiff } from "./init/jsonc.ts";
import { newWorker, packageSpec, tarball } from "./init/new-worker.ts";
import { editSource } from "./init/source.ts";
import { type Beside, type Change, CONSOLE_ASSETS, changesOf, EVERY_MINUTE } from "./init/wanted.ts";
import { packageFolder } from "./local/doors.ts";
import { requireWrangler, shown } from "./local/wrangler.ts";
import { shellWord } from "./operate/words.ts";
import { MISUSED, wantsHelp } from "./options.ts";
import { managerOf } from "./package-manager.ts";
import { DATABASE, findProject, nearestConfig, type Project, wranglerOf } from "./project.ts";
import { paint, say } from "./terminal.ts";
import { type Config, configIn, configOf } from "./wiring/config.ts";

const USAGE: Usage = {
  text:
    "Usage: npx millrace init [NEW-FOLDER] [--yes] [--dry-run] [--config FILE] [--env NAME] [--database NAME]. Adds the engine to the " +
    "Worker of this folder, or makes a new Worker. It shows each change first. --yes applies without a question, --dry-run only shows. " +
    "--database names the D1 database for the engine, where the Worker has several. The exit code is 1 where lines are left to paste.",
  values: ["--config", "--env", "--database"],
  flags: ["--yes", "--dry-run"],
};

interface Plan {
  root: string;
  edits: Edit[];
  /** Folders to copy, such as the console into the assets of the site. */
  copies: [from: string, to: string][];
  /** Sentences to print after the changes. */
  notes: string[];
  /** Files that the user must edit: the command prints the lines to add. */
  unchanged: string[];
}

async function init({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [name, second] = besideOptions(args, USAGE);
  if (second !== undefined) throw new Misuse(`One folder at a time. ${USAGE.text}`);
  const plan = await planOf(args, name);
  const edits = plan.edits.filter((edit) => edit.before !== edit.after || isTooOpen(edit));
  for (const { file, before, after, isSecret } of edits) {
    if (before === after) continue;
    const names = (text: string) => Object.keys(parseEnv(text)).map((name) => `${name}=…\n`);
    const hidden = (text: string) => (isSecret ? names(text).join("") : text);
    say(`${unifiedDiff(relative(plan.root, file), hidden(before), hidden(after))}\n`);
  }
  for (const [, to] of plan.copies) say(`Copy the console's files to ${relative(plan.root, to)}.\n`);
  const isDone = edits.length === 0 && plan.copies.length === 0;
  if (isDone && plan.unchanged.length === 0) say("Nothing to change: the engine is set up here.");
  for (const note of plan.notes) say(`${paint("yellow", "!")} ${note}\n`);
  if (args.includes("--dry-run")) return 0;
  if (isDone) return ended(plan);
  if (!args.includes("--yes")) {
    if (!process.stdin.isTTY) {
      const again = [...args, "--yes"].map((one) => (/^[\w./=-]+$/.test(one) ? one : shellWord(one)));
      say(`No file is changed yet. To apply these changes: npx millrace init ${again.join(" ")}`);
      return MISUSED;
    }
    if (!(await agreed("Apply these changes?", stop))) {
      say("Nothing is changed.");
      return 1;
    }
  }
  // New source files get the usual file mode of a repository. Secret files have an explicit mode.
  process.umask(0o022);
  const files = edits.map(({ file, before, after, as, mode }) => ({
    ...{ file, before: as(before), after: as(after) },
    ...(mode !== undefined && { mode }),
  }));
  writeAll(files, () => {
    for (const [from, to] of plan.copies) cpSync(from, to, { recursive: true });
  });
  if (plan.unchanged.length === 0) say(`${paint("green", "●")} Done. Next: ${next(plan.root)}`);
  return ended(plan);
}

/** Prints the files that the user must still edit. Returns exit code 1 if such a file exists, because the engine cannot run yet. */
function ended({ root, unchanged }: Plan): number {
  if (unchanged.length === 0) return 0;
  say(`${paint("yellow", "●")} Not complete: paste the lines above into ${unchanged.join(" and ")}. Next: ${next(root)}`);
  return 1;
}

function next(root: string): string {
  const folder = relative(process.cwd(), root);
  const there = folder === "" ? "" : `cd ${folder} && `;
  const { dependencies, devDependencies } = JSON.parse(readText(join(root, "package.json")).text || "{}");
  const declared = Object.keys({ ...dependencies, ...devDependencies });
  const packages = ["millrace", "hono", "zod"].filter((name) => !declared.includes(name) && !isInstalled(root, name));
  const named = packages.map((name) => (name === "millrace" ? `millrace@${packageSpec(root)}` : name));
  const isMissing = named.length > 0 || !existsSync(join(root, "node_modules")) || declared.some((name) => !isInstalled(root, name));
  const packed = tarball();
  const from = (path: string) => relative(process.cwd(), path).replace(/^(?!\.)/, "./");
  const pack =
    packed === undefined || existsSync(join(root, packed)) || isInstalled(root, "millrace")
      ? ""
      : `npm pack ${from(packageFolder())} --pack-destination ${from(root)} && `;
  const manager = managerOf(root);
  const install = named.length > 0 ? manager.add : `${manager.name} install`;
  return `${pack}${there}${isMissing ? `${install}${named.map((one) => ` ${one}`).join("")} && ` : ""}npx millrace dev`;
}

function isInstalled(root: string, name: string): boolean {
  const folders = createRequire(join(root, "package.json")).resolve.paths(name) ?? [];
  return folders.some((folder) => existsSync(join(folder, name, "package.json")));
}

/** Files that may exist in the folder of a new Worker: files of package managers, and files such as a README. */
const BEFORE_A_WORKER = /^(?:\..*|node_modules|package\.json|tsconfig\.json|.*\.tgz|.*[.-]lock(?:\.\w+|b)?|(?:README|LICENSE)[^/]*)$/i;

async function planOf(args: readonly string[], name: string | undefined): Promise<Plan> {
  const from = name === undefined ? process.cwd() : resolve(name);
  if (existsSync(join(from, "package.json")) && isInstalled(from, "wrangler")) requireWrangler({ wrangler: wranglerOf(from) });
  const config = optionIn(args, "--config");
  const env = optionIn(args, "--env");
  const found = config ?? nearestConfig(from);
  const isHere = found !== undefined && dirname(resolve(found)) === from;
  if (config === undefined && env === undefined && !isHere) {
    const others = existsSync(from) ? readdirSync(from).filter((file) => !BEFORE_A_WORKER.test(file)) : [];
    if (others.length === 0) return planOfNew(from, found);
    if (found === undefined)
      throw new Refusal(
        `${name ?? "This folder"} has no wrangler.jsonc, and has files that a new Worker does not expect: ${others.slice(0, 5).join(", ")}. ` +
          `Make a new Worker in a new folder: npx millrace init my-worker. For a Worker of these files, write a wrangler.jsonc with its ` +
          `"name", "main" and "compatibility_date" first.`,
      );
  }
  return planOfOwn(findProject({ from, config, env }), optionIn(args, "--database"));
}

function planOfNew(root: string, above: string | undefined): Plan {
  const { edits, notes } = beside(root);
  const other = above === undefined ? [] : [`This makes a new Worker. ${shown(above)} above it has another Worker, which is not changed.`];
  return { root, edits: [...newWorker(root, OLDEST_DATE), ...edits], copies: [], notes: [...other, ...notes], unchanged: [] };
}

async function planOfOwn(project: Project, database: string | undefined): Promise<Plan> {
  const { root, config: file, env, name, main } = project;
  const configuration = readText(file);
  const whole = configIn(file, configuration.text);
  refuseNull(file, whole);
  const others = beside(root);
  const vars = others.edits.filter(({ isSecret }) => isSecret).flatMap(({ after }) => Object.keys(parseEnv(after)));
  const top: Beside = { name: whole.name ?? "worker", env: undefined, secrets: vars, database: env === undefined ? database : undefined };
  const first = edited(file, configuration.text, changesOf(whole, top));
  const now = configIn(file, first.text);
  // The changes of the top level are applied first, because an environment inherits these changes.
  const own = env === undefined ? first : edited(file, first.text, changesOf(now, { name, env, secrets: vars, database }));
  const left = env === undefined ? first.left : [...first.left, ...own.left];
  const config = configOf(whole, env) ?? {};
  const notes = notesOf(project, { config, left, database, whole: configIn(file, own.text) });
  const source = join(root, main);
  if (!existsSync(source)) throw new Refusal(`${shown(file)} names ${main} as "main", and there is no such file.`);
  const { text: before, as } = readText(source);
  const ownsMinute = (config.triggers?.crons ?? []).includes(EVERY_MINUTE);
  // Reads `wrangler` before `editSource` is called, because `editSource` reports an error in its callback as a source that does not
  // compile.
  const { wrangler } = project;
  const edit = await editSource(before, (text) => namesIn({ root, main, wrangler }, text), ownsMinute);
  if (edit.kind === "paste") notes.push(`${main} is not changed, because ${edit.why}. ${edit.lines}`);
  const { assets } = config;
  const site =
    assets && assets.directory !== CONSOLE_ASSETS ? join(root, assets.directory && !isVite(root) ? assets.directory : "public") : undefined;
  return {
    root,
    edits: [
      { file, before: configuration.text, after: own.text, as: configuration.as },
      ...(edit.kind === "edited" ? [{ file: source, before, after: edit.text, as }] : []),
      ...others.edits,
    ],
    copies: site === undefined ? [] : consoleInto(site),
    notes: [...notes, ...others.notes],
    unchanged: [...(left.length > 0 ? [basename(file)] : []), ...(edit.kind === "paste" ? [main] : [])],
  };
}

/** Vite copies `public` into the assets that it builds. */
const isVite = (root: string) => readdirSync(root).some((file) => /^vite\.config\.[mc]?[jt]s$/.test(file));

/** The console's files to copy. Empty if the site's assets already contain this version of the console. */
function consoleInto(site: string): Plan["copies"] {
  const from = join(packageFolder(), "dist/assets/console");
  const to = join(site, "console");
  const files = existsSync(from) ? readdirSync(join(from, "assets")) : [];
  return files.every((file) => existsSync(join(to, "assets", file))) ? [] : [[from, to]];
}

interface Noted {
  config: Config;
  /** The configuration after the changes are applied. */
  whole: Config;
  left: readonly Change[];
  database: string | undefined;
}

function notesOf({ config: file, env, name }: Project, { config, whole, left, database }: Noted): string[] {
  const {
    compatibility_date: date,
    migrations = [],
    assets,
    no_bundle,
    d1_databases = [],
  } = config as Config & { compatibility_date?: string; no_bundle?: boolean };
  const worker = assets as { run_worker_first?: unknown } | undefined;
  const required = requiredIn(configOf(whole, env)).filter((one) => one !== KEY && !requiredIn(config).includes(one));
  const bindings = d1_databases.map(({ binding }) => binding);
  const dateLine = linesOf(file, { path: ["compatibility_date"], value: OLDEST_DATE });
  const others = Object.keys(whole.env ?? {}).filter(
    (one) => changesOf(whole, { name: configOf(whole, one)?.name ?? one, env: one, secrets: [] }).length > 0,
  );
  return [
    ...left.map(
      (change) =>
        `${basename(file)} writes ${change.path[0]} in a form that init cannot extend safely. ${change.adds ? "Add to" : "Set"} ` +
        `${change.path.join(".")}:\n\n${linesOf(file, change)}`,
    ),
    ...(required.length > 0
      ? [
          `"secrets.required" gets names of .dev.vars, too, because wrangler loads no others: ${required.join(", ")}. A deployment then needs ` +
            "their values. Remove a name that is not for your Worker.",
        ]
      : []),
    ...(date === undefined || date < OLDEST_DATE
      ? [
          `${name} has the compatibility date ${date ?? "of no day"}. The engine is tested from ${OLDEST_DATE} on. ` +
            `A later date can change how your Worker runs, so change the line yourself, and test:\n\n${dateLine}`,
        ]
      : []),
    ...(bindings.length > 1 && !bindings.includes(DATABASE) && database === undefined
      ? [
          `The engine's database has the binding ${DATABASE}, and ${bindings.join(" and ")} could both be meant: a new database, ${name}, is added. ` +
            `To use one of yours instead: npx millrace init --database ${bindings[0]}`,
        ]
      : []),
    ...(worker?.run_worker_first === true
      ? [
          `With "run_worker_first": true your Worker gets the requests for the console's files. Make it a list, with "!/console/assets/*" in it.`,
        ]
      : []),
    ...(no_bundle === true ? [`"no_bundle": true: the engine has to be bundled. Remove it, or bundle before wrangler.`] : []),
    ...(migrations.length > 0
      ? [
          `The Durable Objects are bound, and their classes in a new migration: wrangler takes no "exports" for objects beside "migrations".`,
        ]
      : []),
    ...others
      .filter((one) => one !== env)
      .map((one) => `The environment ${one} inherits no bindings. For the engine in it, too: npx millrace init --env ${one}`),
  ];
}

const requiredIn = (config: Config | undefined) => (config as Deployed | undefined)?.secrets?.required ?? [];

const LOADERS: Readonly<Record<string, string>> = { ".ts": "ts", ".mts": "ts", ".cts": "ts", ".tsx": "tsx", ".jsx": "jsx" };

/** The names that a source exports, determined with wrangler's version of esbuild. */
async function namesIn({ root, main, wrangler }: Pick<Project, "root" | "main" | "wrangler">, text: string): Promise<string[]> {
  const { build }: Compiler = createRequire(wrangler)("esbuild");
  const stdin = { contents: text, sourcefile: main, resolveDir: root, loader: LOADERS[extname(main)] ?? "js" };
  const { metafile } = await build({
    stdin,
    bundle: false,
    write: false,
    metafile: true,
    format: "esm",
    logLevel: "silent",
    outfile: "worker.js",
  });
  return Object.values(metafile.outputs).flatMap((output) => output.exports);
}

interface Compiler {
  build(options: object): Promise<{ metafile: { outputs: Record<string, { exports: string[] }> } }>;
}

await runCommand(init);
