import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { isDeepStrictEqual, parseEnv } from "node:util";
import { agreed, besideOptions, type Call, Misuse, optionIn, Refusal, runCommand, type Usage } from "./command.ts";
import { settingsIn } from "./disk.ts";
import { unifiedDiff } from "./init/diff.ts";
import { editJsonc } from "./init/jsonc.ts";
import { newWorker } from "./init/new-worker.ts";
import { editSource } from "./init/source.ts";
import { editToml } from "./init/toml.ts";
import { type Change, CONSOLE_ASSETS, changed, changesOf, EVERY_MINUTE } from "./init/wanted.ts";
import { newKey } from "./local/dev-vars.ts";
import { packageFolder } from "./local/doors.ts";
import { MISUSED, wantsHelp } from "./options.ts";
import { findProject, nearestConfig, type Project } from "./project.ts";
import { paint, say } from "./terminal.ts";
import { type Config, configIn, configOf } from "./wiring/config.ts";

const USAGE: Usage = {
  text:
    "Usage: npx millrace init [NEW-FOLDER] [--yes] [--dry-run] [--config FILE] [--env NAME]. Adds what the engine needs to the Worker of this folder, " +
    "or makes a new Worker. It shows each change first. --yes applies without a question, --dry-run only shows.",
  values: ["--config", "--env"],
  flags: ["--yes", "--dry-run"],
};

/** A file as it is, and as it will be. */
interface Edit {
  /** Its path. */
  file: string;
  before: string;
  after: string;
  /** True where the values are not shown. */
  isSecret?: boolean;
}

/** Everything that `init` is about to do. */
interface Plan {
  root: string;
  edits: Edit[];
  /** Folders to copy: of the console, into the site's own assets. */
  copies: [from: string, to: string][];
  /** Sentences that are shown below the changes. */
  notes: string[];
}

/** `npx millrace init`: the engine in the Worker of the current folder, or a new Worker. */
async function init({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [name, second] = besideOptions(args, USAGE);
  if (second !== undefined) throw new Misuse(`One folder at a time. ${USAGE.text}`);
  const plan = await planOf(args, name);
  const edits = plan.edits.filter(({ before, after }) => before !== after);
  for (const { file, before, after, isSecret } of edits) {
    const hidden = (text: string) => (isSecret ? text.replaceAll(/=.*/g, "=…") : text);
    say(`${unifiedDiff(relative(plan.root, file), hidden(before), hidden(after))}\n`);
  }
  for (const [, to] of plan.copies) say(`Copy the console's files to ${relative(plan.root, to)}.\n`);
  const isDone = edits.length === 0 && plan.copies.length === 0;
  if (isDone) say("Nothing to change: the engine is set up here.");
  for (const note of plan.notes) say(`${paint("yellow", "!")} ${note}\n`);
  if (isDone || args.includes("--dry-run")) return 0;
  if (!args.includes("--yes")) {
    if (!process.stdin.isTTY) {
      say("Nothing is changed yet. To apply these changes: npx millrace init --yes");
      return MISUSED;
    }
    if (!(await agreed("Apply these changes?", stop))) {
      say("Nothing is changed.");
      return 1;
    }
  }
  for (const { file, after } of edits) {
    mkdirSync(dirname(file), { recursive: true });
    // Secrets are their owner's alone; sources are as all files of a repository.
    writeFileSync(file, after, { mode: basename(file) === ".dev.vars" ? 0o600 : 0o644 });
  }
  for (const [from, to] of plan.copies) cpSync(from, to, { recursive: true });
  say(`${paint("green", "●")} Done. Next: ${next(plan.root)}`);
  return 0;
}

/** The commands that come after. */
function next(root: string): string {
  const folder = relative(process.cwd(), root);
  const there = folder === "" ? "" : `cd ${folder} && `;
  const has = (name: string) => canResolve(root, name);
  const packages = ["hono", "zod"].filter((name) => !has(name));
  const install = existsSync(join(root, "node_modules"))
    ? packages.length > 0
      ? `npm install ${packages.join(" ")} && `
      : ""
    : "npm install && ";
  return `${there}${install}npx millrace dev`;
}

function canResolve(root: string, name: string): boolean {
  try {
    createRequire(join(root, "package.json")).resolve(name);
    return true;
  } catch {
    return false;
  }
}

async function planOf(args: readonly string[], name: string | undefined): Promise<Plan> {
  const from = name === undefined ? process.cwd() : resolve(name);
  const config = optionIn(args, "--config");
  const isEmpty =
    !existsSync(from) || readdirSync(from).every((file) => file.startsWith(".") || file === "node_modules" || file === "package-lock.json");
  if (config === undefined && isEmpty) return planOfNew(from);
  if (name !== undefined && nearestConfig(from) === undefined)
    throw new Refusal(`${name} is not empty, and has no wrangler.jsonc. Name a new folder.`);
  return planOfOwn(findProject({ from, config, env: optionIn(args, "--env") }));
}

const NAME = /^[a-z0-9][a-z0-9-]{0,50}$/;

function planOfNew(root: string): Plan {
  const name = basename(root).toLowerCase();
  if (!NAME.test(name))
    throw new Refusal(`"${name}" cannot be the name of a Worker: it takes a-z, 0-9 and "-". Name a folder: npx millrace init my-worker`);
  const { version, peerDependencies } = JSON.parse(readFileSync(join(packageFolder(), "package.json"), "utf8"));
  const files = newWorker(name, { millrace: version, hono: peerDependencies.hono, zod: peerDependencies.zod });
  const configuration = files["wrangler.jsonc"] ?? "";
  files["wrangler.jsonc"] = edited(
    "jsonc",
    configuration,
    changesOf(configIn("wrangler.jsonc", configuration), { name, env: undefined, secrets: [] }),
  ).text;
  const edits = Object.entries(files).map(([file, after]) => ({ file: join(root, file), before: "", after }));
  const ignored = edits.filter(({ file }) => basename(file) !== ".gitignore");
  return { root, edits: [...ignored, ...beside(root, "node_modules\n")], copies: [], notes: [] };
}

async function planOfOwn(project: Project): Promise<Plan> {
  const { root, config: file, env, name, main, format } = project;
  const text = settingsIn(file);
  const config = configOf(configIn(file, text), env) ?? {};
  const vars = existsSync(project.secrets) ? Object.keys(parseEnv(settingsIn(project.secrets))) : [];
  const changes = changesOf(config, { name, env, secrets: vars });
  const { text: after, left } = edited(format, text, changes);
  const notes = notesOf(config, name, left);
  const source = join(root, main);
  if (!existsSync(source)) throw new Refusal(`${relative(root, file)} names ${main} as "main", and there is no such file.`);
  const before = readFileSync(source, "utf8");
  const ownsMinute = (config.triggers?.crons ?? []).includes(EVERY_MINUTE);
  const edit = await editSource(before, (text) => exportsOf(project, text), ownsMinute);
  if (edit.kind === "paste")
    notes.push(`${main} is not changed, because ${edit.why}. Put these lines into it, with your handler for \`app\`:\n\n${edit.lines}`);
  const { assets } = config;
  const site =
    assets && assets.directory !== CONSOLE_ASSETS ? join(root, assets.directory && !isVite(root) ? assets.directory : "public") : undefined;
  return {
    root,
    edits: [
      { file, before: text, after },
      ...(edit.kind === "edited" ? [{ file: source, before, after: edit.text }] : []),
      ...beside(root),
    ],
    copies: site === undefined ? [] : consoleInto(site),
    notes,
  };
}

/** With Vite, the folder of the assets is what it builds; it copies `public` there. */
const isVite = (root: string) => readdirSync(root).some((file) => /^vite\.config\.[mc]?[jt]s$/.test(file));

/** The console's files, where the site's assets do not have those of this version. */
function consoleInto(site: string): Plan["copies"] {
  const from = join(packageFolder(), "dist/assets/console");
  const to = join(site, "console");
  const files = existsSync(from) ? readdirSync(join(from, "assets")) : [];
  return files.every((file) => existsSync(join(to, "assets", file))) ? [] : [[from, to]];
}

/** A configuration with the changes, and those that could not be made without disturbing it. */
function edited(format: Project["format"], text: string, changes: readonly Change[]): { text: string; left: Change[] } {
  const file = `wrangler.${format}`;
  let now = text;
  const left: Change[] = [];
  for (const change of changes) {
    const next = format === "toml" ? editToml(now, [change]) : editJsonc(now, [change]);
    if (isDeepStrictEqual(plain(safely(file, next)), plain(changed(configIn(file, now), [change])))) now = next;
    else left.push(change);
  }
  return { text: now, left };
}

/** Without the prototypes that a parser gives its objects. */
const plain = (config: Config | undefined): unknown => config && JSON.parse(JSON.stringify(config));

function safely(file: string, text: string): Config | undefined {
  try {
    return configIn(file, text);
  } catch {
    return undefined;
  }
}

function notesOf(config: Config, name: string, left: readonly Change[]): string[] {
  const {
    compatibility_date: date,
    migrations = [],
    assets,
    no_bundle,
  } = config as Config & { compatibility_date?: string; no_bundle?: boolean };
  const worker = assets as { run_worker_first?: unknown } | undefined;
  return [
    ...left.map(
      ({ path, value, adds }) =>
        `The configuration writes ${path[0]} in a way that is not extended safely. ${adds ? "Add to" : "Set"} ${path.join(".")}: ${JSON.stringify(value)}`,
    ),
    ...(date === undefined || date < "2024-09-23"
      ? [
          `The engine needs "compatibility_date": "2024-09-23" or later; ${name} has ${date ?? "none"}. Change it yourself: it changes how your Worker runs.`,
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
    ...Object.keys(config.env ?? {}).map(
      (env) => `The environment ${env} inherits no bindings. For the engine in it, too: npx millrace init --env ${env}`,
    ),
  ];
}

/** Files beside the sources: secrets and state are not for a repository. */
function beside(root: string, otherwise = ""): Edit[] {
  const read = (name: string, without: string) => (existsSync(join(root, name)) ? readFileSync(join(root, name), "utf8") : without);
  const before = read(".gitignore", "");
  const ignored = (before || otherwise).split("\n").map((line) => line.trim().replace(/^\/|\/$/g, ""));
  const isIgnored = (name: string) =>
    ignored.includes(name) || ignored.includes(`${name}*`) || (name === ".dev.vars" && ignored.includes(".dev.*"));
  const more = [".dev.vars", ".millrace", ".wrangler"].filter((name) => !isIgnored(name));
  const base = before || otherwise;
  const gitignore = more.length === 0 ? base : `${base}${base === "" || base.endsWith("\n") ? "" : "\n"}${more.join("\n")}\n`;
  const vars = read(".dev.vars", "");
  const hasKey = /^[ \t]*(export[ \t]+)?MILLRACE_KEY[ \t]*=/m.test(vars);
  const withKey = `${vars}${vars === "" || vars.endsWith("\n") ? "" : "\n"}MILLRACE_KEY=${newKey()}\n`;
  return [
    { file: join(root, ".gitignore"), before, after: gitignore },
    { file: join(root, ".dev.vars"), before: vars, after: hasKey ? vars : withKey, isSecret: true },
  ];
}

const LOADERS: Readonly<Record<string, string>> = { ".ts": "ts", ".mts": "ts", ".cts": "ts", ".tsx": "tsx", ".jsx": "jsx" };

/** The names that a source exports, by wrangler's own compiler. */
async function exportsOf({ root, main, wrangler }: Project, text: string): Promise<string[]> {
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

/** As far as it is used here. */
interface Compiler {
  build(options: object): Promise<{ metafile: { outputs: Record<string, { exports: string[] }> } }>;
}

await runCommand(init);
