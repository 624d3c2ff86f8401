import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { errorIn, ROOT, WRANGLER } from "../local/wrangler.ts";
import type { Config } from "./config.ts";
import type { Known, Look } from "./known.ts";
import { placeIn } from "./known.ts";

const SRC = join(ROOT, "src");

/** A source file of the app: not of the engine, and not of the command line. */
export interface Source {
  /** As people of this checkout write it. */
  file: string;
  text: string;
}

/** What came of looking at the sources. */
export type Seen = { known: Known; sources: Source[]; worker: string } | { mistake: string };

/** As far as it is used here. */
interface Message {
  id: string;
  text: string;
  location: { file: string; line: number } | null;
}
interface Built {
  errors: Message[];
  warnings: Message[];
  outputFiles?: { path: string; text: string }[];
}
interface Bundler {
  build(options: Record<string, unknown>): Promise<Built>;
}

interface Plugged {
  onResolve(which: { filter: RegExp }, answer: () => object): void;
  onLoad(which: { filter: RegExp; namespace: string }, answer: () => object): void;
}

/** Wrangler's own bundler: what it reads, wrangler will read. */
const bundler = (): Bundler => createRequire(WRANGLER)("esbuild");

/** How long the sources may take to be loaded: again, with more time, where a busy machine may be the reason. */
const LOAD_WITHIN_MS = [20_000, 60_000];

/**
 * Bundles our own sources, not the packages, into one file, and loads them in a process of its own to hear what they know. Answers the
 * Worker's bundle, which stands for the sources as they were at one moment. `folder` is one below the checkout, whose packages it uses.
 */
export async function look(folder: string, { main = "src/worker.ts", define }: Config): Promise<Seen> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const sources = appSources();
  const defining = sources.filter(({ text }) => /\bdefine(Command|Event|Workflow)\(/.test(text));
  const all = `export * as worker from "./${main}";
    export { app } from "./src/catalog.ts";
    ${defining.map(({ file }, at) => `import * as m${at} from "./${file}";`).join("\n")}
    export const modules = [${defining.map(({ file }, at) => `["${file}", m${at}]`).join(", ")}];`;
  const built = await bundler()
    .build({
      ...{ absWorkingDir: ROOT, entryPoints: { worker: main, look: ALL }, outdir: folder, plugins: [from(all)], define },
      ...{ bundle: true, format: "esm", packages: "external", platform: "neutral", target: "es2024", keepNames: true },
      ...{ sourcemap: "inline", sourcesContent: false, loader: { ".md": "text" }, write: false, logLevel: "silent" },
    })
    .catch((error: Partial<Built>): Built => ({ errors: error.errors ?? [{ id: "", text: String(error), location: null }], warnings: [] }));
  const mistake = firstOf(built.errors, built.warnings);
  if (mistake !== undefined) return { mistake };
  const output = (name: string) => built.outputFiles?.find(({ path }) => path === join(folder, name))?.text ?? "";
  const file = join(folder, "look.js");
  writeFileSync(file, output("look.js"));
  const said = await load(file, SRC);
  if ("known" in said) return { known: said.known, sources, worker: output("worker.js") };
  const place = said.at && !said.error.includes(said.at) ? ` (${relative(ROOT, said.at)})` : "";
  return { mistake: `The sources cannot be loaded: ${said.error}${place}` };
}

/** The entry that names everything; it stands in no file. */
const ALL = "millrace:all";

const from = (contents: string) => ({
  name: ALL,
  setup({ onResolve, onLoad }: Plugged) {
    onResolve({ filter: new RegExp(`^${ALL}$`) }, () => ({ path: ALL, namespace: ALL }));
    onLoad({ filter: /./, namespace: ALL }, () => ({ contents, resolveDir: ROOT }));
  },
});

/** Writes a file that somebody watches: it is there as a whole or as it was, and untouched where nothing is new. */
export function replace(file: string, text: string): void {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

function appSources(): Source[] {
  return readdirSync(SRC, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/^(engine|cli)\//.test(name))
    .map((name) => ({ file: `src/${name}`, text: readFileSync(join(SRC, name), "utf8") }));
}

/** The first error, or the first name that is asked for and exported nowhere. */
function firstOf(errors: readonly Message[], warnings: readonly Message[]): string | undefined {
  const [found] = [...errors, ...warnings.filter(({ id }) => id === "import-is-undefined")];
  if (!found) return undefined;
  const place = found.location ? `${found.location.file}:${found.location.line}` : "The sources";
  return `${place} does not compile: ${found.text}`;
}

/** Loads a bundle in a process of its own. `sources` is the folder whose files are worth naming; `within` has a time in ms for each try. */
export async function load(bundle: string, sources: string, within: readonly number[] = LOAD_WITHIN_MS): Promise<Look> {
  for (const [at, ms] of within.entries()) {
    const said = await loadOnce(bundle, sources, ms);
    if (said !== "late") return said;
    if (at === within.length - 1) break;
  }
  const seconds = within.map((ms) => `${ms / 1000} s`).join(", then ");
  return { error: `they took longer than ${seconds}. Either what they begin never ends, or the machine is too busy.`, at: undefined };
}

async function loadOnce(bundle: string, sources: string, withinMs: number): Promise<Look | "late"> {
  const child: ChildProcess = fork(join(import.meta.dirname, "look.ts"), [bundle, sources], {
    execArgv: ["--enable-source-maps", "--disable-warning=ExperimentalWarning"],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill("SIGKILL");
  }, withinMs);
  let said: Look | undefined;
  child.on("message", (message) => {
    said = message as Look;
  });
  let wrote = "";
  child.stderr?.on("data", (chunk) => {
    wrote += chunk;
  });
  const [code, signal] = await once(child, "close");
  clearTimeout(timer);
  if (said) return said;
  if (late) return "late";
  const why = code === UNSETTLED ? "an await outside of all functions never ends" : `it ended with ${signal ?? `exit code ${code}`}`;
  return {
    error: `the process that loaded them did not survive: ${errorIn(wrote) ?? why}.`.replace(/\.\.$/, "."),
    at: placeIn(wrote, sources),
  };
}

/** Node's exit code for a module that waits for something which nothing is going to do. */
const UNSETTLED = 13;
