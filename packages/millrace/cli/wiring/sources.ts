import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, posix, relative } from "node:path";
import { builtConsole } from "../local/console.ts";
import { sourceDoors } from "../local/doors.ts";
import { shown } from "../local/wrangler.ts";
import { mainOf, type Project } from "../project.ts";
import type { Config } from "./config.ts";
import type { Known } from "./known.ts";
import type { Loader } from "./loader.ts";

/** A source file of the project, without its tests. */
export interface Source {
  /** Its path below the project's root. */
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
export type Seen = ({ known: Known; sources: Source[]; worker: Output[] } | { mistake: string }) & {
  /** The files that the bundle was made of, beside the packages; empty where it was not made. */
  inputs: string[];
};

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
  metafile?: { inputs: Record<string, unknown> };
}
interface Bundler {
  build(options: Record<string, unknown>): Promise<Built>;
}

interface Plugged {
  onResolve(which: { filter: RegExp }, answer: () => object): void;
  onLoad(which: { filter: RegExp; namespace: string }, answer: () => object): void;
}

/** Wrangler's own bundler: what it reads, wrangler will read. */
const bundler = ({ wrangler }: Project): Bundler => createRequire(wrangler)("esbuild");

/** Where a project's sources are looked at: its folders, and the process that loads them. */
export interface Place {
  readonly project: Project;
  /** Below the project's root, whose packages it uses. Bundles that run from another folder must lie as deep, for their source maps. */
  readonly folder: string;
  readonly loader: Loader;
  /** True leaves out the text of an error that the sources throw: the output is stored or sent, and the text may have a secret. */
  readonly isPublic?: boolean;
}

/**
 * Bundles the project's sources without the packages, and loads them in another process to read their definitions. Returns the Worker's
 * bundle, which is a snapshot of the sources.
 */
export async function look({ project, folder, loader, isPublic }: Place, config: Config): Promise<Seen> {
  const { root } = project;
  const unbuilt = await builtConsole().then(() => undefined, messageOf);
  if (unbuilt !== undefined) return { mistake: unbuilt, inputs: [] };
  const main = mainOf(config);
  if (!existsSync(join(root, main)))
    return { mistake: `"main" in ${shown(project.config)} names ${main}, which does not exist.`, inputs: [] };
  const sources = sourcesIn(root, posix.dirname(main));
  const defining = sources.filter(({ text }) => /\bdefine(Command|Event|Workflow|Consumer)\(/.test(text));
  const all = `export * as worker from "./${main}";
    ${defining.map(({ file }, at) => `import * as m${at} from "./${file}";`).join("\n")}
    export const modules = [${defining.map(({ file }, at) => `["${file}", m${at}]`).join(", ")}];`;
  const built = await bundler(project)
    .build({
      ...{ absWorkingDir: root, entryPoints: { worker: main, look: ALL }, outdir: folder, plugins: [from(all, root)] },
      ...{
        bundle: true,
        splitting: true,
        format: "esm",
        packages: "external",
        ...(config.define && { define: config.define }),
        alias: { ...config.alias, ...sourceDoors() },
        platform: "neutral",
        target: "es2024",
        keepNames: true,
        chunkNames: `${SHARED}[name]-[hash]`,
      },
      // With the sources in its map, nobody reads them again from where they stand: wrangler would load each save anew, looked at or not.
      ...{ sourcemap: "linked", sourcesContent: true, loader: LOADERS, write: false, metafile: true, logLevel: "silent" },
    })
    .catch((error: Partial<Built>): Built => ({ errors: error.errors ?? [{ id: "", text: String(error), location: null }], warnings: [] }));
  const mistake = firstOf(built.errors, built.warnings);
  const inputs = Object.keys(built.metafile?.inputs ?? {}).flatMap((file) => (file.startsWith(ALL) ? [] : [join(root, file)]));
  if (mistake !== undefined) return { mistake, inputs };
  const outputs = (built.outputFiles ?? []).map(({ path, text }) => ({ name: relative(folder, path), text }));
  const only = (entry: string) => outputs.filter(({ name }) => name.startsWith(`${entry}.`)).toReversed();
  const shared = outputs.filter(({ name }) => name.startsWith(SHARED));
  writeBundle(folder, [...shared, ...only("look")]);
  const said = await loader.load(join(folder, "look.js"));
  if ("known" in said) return { known: said.known, sources, worker: [...shared, ...only("worker")], inputs };
  const isCut = isPublic && said.thrown !== undefined;
  const place = said.at && (isCut || !said.error.includes(said.at)) ? ` (${relative(root, said.at)})` : "";
  const error = isCut ? `they throw a ${said.thrown}${place}. To see its text, run: npx millrace dev` : `${said.error}${place}`;
  return { mistake: `The sources cannot be loaded: ${error}`, inputs };
}

/** Files that a Worker imports as texts or bytes: wrangler's own rules, and `.md`. */
const LOADERS = { ".md": "text", ".txt": "text", ".html": "text", ".sql": "text", ".bin": "binary" };

/** The entry that names everything; it stands in no file. */
const ALL = "millrace:all";

const from = (contents: string, root: string) => ({
  name: ALL,
  setup({ onResolve, onLoad }: Plugged) {
    onResolve({ filter: new RegExp(`^${ALL}$`) }, () => ({ path: ALL, namespace: ALL }));
    onLoad({ filter: /./, namespace: ALL }, () => ({ contents, resolveDir: root }));
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

/** Folders without sources of the Worker, in a root that has its first source file. */
const WITHOUT_SOURCES = /^(?:\..*|node_modules|dist|build|coverage|public|tests?|__tests__)$/;
const IS_SOURCE = /(?<!\.d|\.test|\.spec)\.[mc]?[jt]sx?$/;
const IS_TOOL = /\.config\.[mc]?[jt]s$/;

function sourcesIn(root: string, folder: string): Source[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const file = posix.join(folder, entry.name);
    if (entry.isDirectory()) return WITHOUT_SOURCES.test(entry.name) ? [] : sourcesIn(root, file);
    return IS_SOURCE.test(file) && !IS_TOOL.test(file) ? [{ file, text: readFileSync(join(root, file), "utf8") }] : [];
  });
}

/** The first error, or the first name that is asked for and exported nowhere. */
function firstOf(errors: readonly Message[], warnings: readonly Message[]): string | undefined {
  const [found] = [...errors, ...warnings.filter(({ id }) => id === "import-is-undefined")];
  if (!found) return undefined;
  const place = found.location ? `${found.location.file}:${found.location.line} does` : "The sources do";
  return `${place} not compile: ${found.text}`;
}
