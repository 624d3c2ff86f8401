import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { builtConsole } from "../local/console.ts";
import { sourceDoors } from "../local/doors.ts";
import { ROOT, WRANGLER } from "../local/wrangler.ts";
import type { Config } from "./config.ts";
import type { Known } from "./known.ts";
import type { Loader } from "./loader.ts";

/** Where our own sources are. */
export const SRC = join(ROOT, "src");

/** A source file of the app: not of the engine, and not of the command line. */
export interface Source {
  /** As people of this checkout write it. */
  file: string;
  text: string;
}

/** The line of a place in a text, as people count. */
export const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length;

/** A file of the Worker's bundle. */
export interface Output {
  name: string;
  text: string;
}

/** What came of looking at the sources. The Worker's entry, `worker.js`, is the last of its bundle. */
export type Seen = { known: Known; sources: Source[]; worker: Output[] } | { mistake: string };

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

/**
 * Bundles our own sources, not the packages, and loads them in a process of its own to hear what they know. Answers the Worker's bundle,
 * which stands for the sources as they were at one moment. `folder` is one below the checkout, whose packages it uses; what is to run from
 * another folder must lie as deep, or its source maps lead astray.
 */
export async function look(folder: string, { main = "src/worker.ts", define }: Config, loader: Loader): Promise<Seen> {
  const unbuilt = await builtConsole().then(() => undefined, messageOf);
  if (unbuilt !== undefined) return { mistake: unbuilt };
  const sources = appSources();
  const defining = sources.filter(({ text }) => /\bdefine(Command|Event|Workflow|Consumer)\(/.test(text));
  const all = `export * as worker from "./${main}";
    export { app } from "./src/catalog.ts";
    ${defining.map(({ file }, at) => `import * as m${at} from "./${file}";`).join("\n")}
    export const modules = [${defining.map(({ file }, at) => `["${file}", m${at}]`).join(", ")}];`;
  const built = await bundler()
    .build({
      ...{ absWorkingDir: ROOT, entryPoints: { worker: main, look: ALL }, outdir: folder, plugins: [from(all)], define },
      ...{
        bundle: true,
        splitting: true,
        format: "esm",
        packages: "external",
        alias: sourceDoors(),
        platform: "neutral",
        target: "es2024",
        keepNames: true,
        chunkNames: `${SHARED}[name]-[hash]`,
      },
      // With the sources in its map, nobody reads them again from where they stand: wrangler would load each save anew, looked at or not.
      ...{ sourcemap: "linked", sourcesContent: true, loader: { ".md": "text" }, write: false, logLevel: "silent" },
    })
    .catch((error: Partial<Built>): Built => ({ errors: error.errors ?? [{ id: "", text: String(error), location: null }], warnings: [] }));
  const mistake = firstOf(built.errors, built.warnings);
  if (mistake !== undefined) return { mistake };
  const outputs = (built.outputFiles ?? []).map(({ path, text }) => ({ name: relative(folder, path), text }));
  const only = (entry: string) => outputs.filter(({ name }) => name.startsWith(`${entry}.`)).toReversed();
  const shared = outputs.filter(({ name }) => name.startsWith(SHARED));
  writeBundle(folder, [...shared, ...only("look")]);
  const said = await loader.load(join(folder, "look.js"));
  if ("known" in said) return { known: said.known, sources, worker: [...shared, ...only("worker")] };
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

/**
 * Writes a bundle where somebody reads it. Its entry comes last and names the other files, so that nobody reads half of one bundle and half
 * of another; those of bundles before are removed, but for `kept`.
 */
export function writeBundle(folder: string, files: readonly Output[], kept: readonly Output[] = []): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const { name, text } of files) replace(join(folder, name), text);
  const names = new Set([...files, ...kept].map(({ name }) => name));
  for (const name of readdirSync(folder)) if (name.startsWith(SHARED) && !names.has(name)) rmSync(join(folder, name));
}

/** The beginning of the names of chunks: code that several entries share, or that import() loads later. */
const SHARED = "chunk-";

/** Writes a file that somebody watches: it is there as a whole or as it was, and untouched where nothing is new. */
export function replace(file: string, text: string): void {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

function appSources(): Source[] {
  return readdirSync(SRC, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/^(engine|cli|console)\//.test(name))
    .map((name) => ({ file: `src/${name}`, text: readFileSync(join(SRC, name), "utf8") }));
}

/** The first error, or the first name that is asked for and exported nowhere. */
function firstOf(errors: readonly Message[], warnings: readonly Message[]): string | undefined {
  const [found] = [...errors, ...warnings.filter(({ id }) => id === "import-is-undefined")];
  if (!found) return undefined;
  const place = found.location ? `${found.location.file}:${found.location.line}` : "The sources";
  return `${place} does not compile: ${found.text}`;
}
