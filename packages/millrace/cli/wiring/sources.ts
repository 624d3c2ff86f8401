import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, posix, relative } from "node:path";
import { builtConsole } from "../local/console.ts";
import { besideOf, sourceDoors } from "../local/doors.ts";
import { shown } from "../local/wrangler.ts";
import { mainOf, type Project } from "../project.ts";
import type { Config } from "./config.ts";
import type { Known } from "./known.ts";
import type { Loader } from "./loader.ts";

/** A source file of the project. Test files are left out. */
export interface Source {
  file: string;
  text: string;
}

export const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length;

export interface Output {
  name: string;
  text: string;
}

/** The result of a check of the sources. In `worker`, the Worker's entry file `worker.js` is the last file. */
export type Seen = ({ known: Known; sources: Source[]; worker: Output[] } | { mistake: string }) & {
  /** The paths of the source files that the bundle contains. Empty if no bundle was built. */
  inputs: string[];
};

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

/** The version of esbuild that wrangler uses, so that this check and wrangler accept the same sources. */
const bundler = ({ wrangler }: Project): Bundler => createRequire(wrangler)("esbuild");

/** The project and its folders, and the loader of the sources. */
export interface Place {
  readonly project: Project;
  /**
   * A folder in the project, from which packages are resolved. If a bundle runs in a different folder, this folder must have the same
   * depth, because the source map contains relative paths.
   */
  readonly folder: string;
  readonly loader: Loader;
  /** If true, the text of an error that the sources throw is omitted. The text may contain a secret, and the output is stored or sent. */
  readonly isPublic?: boolean;
  /** If true, the bundle also exports the function that replays recorded runs. */
  readonly walks?: boolean;
}

/**
 * Bundles the sources without packages, and loads them in another process to read their definitions. Returns the Worker's bundle, which is
 * a snapshot of the sources.
 */
export async function look({ project, folder, loader, isPublic, walks = false }: Place, config: Config): Promise<Seen> {
  const { root } = project;
  const unbuilt = await builtConsole().then(() => undefined, messageOf);
  if (unbuilt !== undefined) return { mistake: unbuilt, inputs: [] };
  const main = mainOf(config);
  if (!existsSync(join(root, main)))
    return { mistake: `"main" in ${shown(project.config)} names ${main}, which does not exist.`, inputs: [] };
  const sources = sourcesIn(root, posix.dirname(main));
  const defining = sources.filter(({ text }) => /\bdefine(Command|Event|Workflow|Consumer)\(/.test(text));
  const all = `${walks ? `export { walkRecord } from ${JSON.stringify(WALK)};` : ""}
    export * as worker from "./${main}";
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
      // The source map contains the sources. Otherwise wrangler would watch the source files and reload the Worker after each unchecked
      // save.
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

/** The function that replays recorded runs. The engine bundles it with the sources, so that both use the same classes of errors. */
const WALK = besideOf(join(import.meta.dirname, "../../src/check", basename(import.meta.filename)), "walk");

/** How esbuild loads files that a Worker imports as text or bytes: wrangler's rules, and `.md`. */
const LOADERS = { ".md": "text", ".txt": "text", ".html": "text", ".sql": "text", ".bin": "binary" };

/** The name of a virtual entry module that imports every source file. */
const ALL = "millrace:all";

const from = (contents: string, root: string) => ({
  name: ALL,
  setup({ onResolve, onLoad }: Plugged) {
    onResolve({ filter: new RegExp(`^${ALL}$`) }, () => ({ path: ALL, namespace: ALL }));
    onLoad({ filter: /./, namespace: ALL }, () => ({ contents, resolveDir: root }));
  },
});

/**
 * Writes a bundle for a watching runtime. The entry is written last, and the names of the other files contain a hash, so that two bundles
 * are never mixed. Files of older bundles are removed, except the files in `kept`.
 */
export function writeBundle(folder: string, files: readonly Output[], kept: readonly Output[] = []): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const { name, text } of files) replace(join(folder, name), text);
  const names = new Set([...files, ...kept].map(({ name }) => name));
  for (const name of readdirSync(folder)) if (name.startsWith(SHARED) && !names.has(name)) rmSync(join(folder, name));
}

/** The file name prefix of chunks. A chunk contains code that several entries share, or that import() loads. */
const SHARED = "chunk-";

/** Replaces a watched file by a rename, and only if its text has changed, because other processes watch the file. */
export function replace(file: string, text: string): void {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Folders that the search for sources skips, in a project whose main source file is in the root. */
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

/** The first error of esbuild, or the first warning of esbuild about an import that has no matching export. */
function firstOf(errors: readonly Message[], warnings: readonly Message[]): string | undefined {
  const [found] = [...errors, ...warnings.filter(({ id }) => id === "import-is-undefined")];
  if (!found) return undefined;
  const place = found.location ? `${found.location.file}:${found.location.line} does` : "The sources do";
  return `${place} not compile: ${found.text}`;
}
