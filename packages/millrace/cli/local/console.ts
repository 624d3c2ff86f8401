import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Refusal } from "../command.ts";
import type { Operation } from "../operate/operations.ts";
import { digestOf } from "./made-once.ts";
import { ROOT } from "./wrangler.ts";

const SOURCES = join(ROOT, "packages/millrace/console");
/** The generated module with the script and the style, which the Worker imports. Git ignores this module. */
const BUILT = join(ROOT, "packages/millrace/src/http/console/built.js");
const OPERATIONS = join(ROOT, "packages/millrace/cli/operate/operations.json");
const FROM = [SOURCES, OPERATIONS, join(import.meta.dirname, "console.ts"), join(ROOT, "package-lock.json")];
/** Browsers that support `light-dark()` and all other features that the console uses. */
const BROWSERS = ["chrome125", "firefox125", "safari17.5"];

/**
 * Builds the console if its sources have changed. Every program that bundles the Worker calls this function before it bundles. Errors: a
 * `Refusal` with the bundler's error.
 */
export async function builtConsole(): Promise<void> {
  // The installed package contains the built console, without sources.
  if (!existsSync(SOURCES)) return;
  const made = `// Made of packages/millrace/console ${digestOf(FROM)}. Change that, and never this.\n`;
  if (existsSync(BUILT) && readFileSync(BUILT, "utf8").startsWith(made)) return;
  const { script, style } = await built();
  const text = `${made}export const script = ${named(script, "js")};\nexport const style = ${named(style, "css")};\n`;
  // The built file is replaced by a rename, because two processes may build the console at the same time.
  const making = `${BUILT}.${process.pid}`;
  writeFileSync(making, text);
  renameSync(making, BUILT);
}

/**
 * Writes the console for the package. Its files are written into the folder `assets`, for a Worker's static assets, and their names into
 * the file `module`.
 */
export async function packedConsole(assets: string, module: string): Promise<void> {
  await builtConsole();
  const { script, style }: { script: File; style: File } = await import(pathToFileURL(BUILT).href);
  mkdirSync(join(assets, "console/assets"), { recursive: true });
  for (const { name, text } of [script, style]) writeFileSync(join(assets, "console/assets", name), text);
  writeFileSync(join(assets, "_headers"), HEADERS);
  const names = Object.entries({ script, style }).map(([of, { name }]) => `export const ${of} = ${JSON.stringify({ name })};\n`);
  writeFileSync(module, names.join(""));
}

interface File {
  name: string;
  text: string;
}

/**
 * The headers of the static assets, equal to the headers that the Worker sends. A file can be cached forever, because its name contains the
 * digest of its content.
 */
const HEADERS = `/console/assets/*
  cache-control: public, max-age=31536000, immutable
  x-content-type-options: nosniff
`;

function named(text: string, ending: string): string {
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return JSON.stringify({ name: `${digest}.${ending}`, text });
}

/** Parameters of a list that are not filters. */
const NO_FILTERS = new Set(["cursor", "limit", "reveal"]);

/** The filters of each list of the API, by its path: the permitted values of each, or its type. The console shows them. */
function filtersOf(operations: readonly Operation[]): Record<string, Record<string, string | readonly string[]>> {
  const lists = operations.filter(({ page }) => page !== undefined);
  return Object.fromEntries(
    lists.map(({ path, fields }) => {
      const filters = fields.filter(({ in: place, name }) => place === "query" && !NO_FILTERS.has(name));
      return [path.replaceAll(/\{(\w+)\}/g, ":$1"), Object.fromEntries(filters.map(({ name, type, values }) => [name, values ?? type]))];
    }),
  );
}

export function readOperations(): Operation[] {
  return JSON.parse(readFileSync(OPERATIONS, "utf8")) as Operation[];
}

interface Output {
  output: readonly { fileName: string; code?: string; source?: string | Uint8Array }[];
}

/** The script and the style of the console, with the filters of these operations. */
export async function built(operations = readOperations()): Promise<{ script: string; style: string }> {
  if (!isInstalled()) throw new Refusal("The console is not built, and the packages that build it are not installed: run `npm install`.");
  const { build } = await import("vite");
  const options = {
    // NODE_ENV is set to production, because the value test, which a test run sets, would make the build larger.
    ...{ configFile: false, root: SOURCES, logLevel: "silent", mode: "production" },
    define: { "process.env.NODE_ENV": '"production"', MILLRACE_FILTERS: JSON.stringify(filtersOf(operations)) },
    oxc: { jsx: { runtime: "automatic", importSource: "preact", development: false } },
    build: {
      ...{ write: false, target: BROWSERS, cssTarget: BROWSERS, modulePreload: false, reportCompressedSize: false },
      rollupOptions: { input: join(SOURCES, "main.tsx") },
    },
  } as const;
  const { output } = await build(options as object).then(
    (made) => made as unknown as Output,
    (error: unknown) => {
      throw new Refusal(`The console cannot be built: ${error instanceof Error ? error.message : String(error)}`);
    },
  );
  const script = output.find(({ fileName }) => fileName.endsWith(".js"))?.code;
  const style = output.find(({ fileName }) => fileName.endsWith(".css"))?.source;
  if (script === undefined || style === undefined) throw new Refusal("The console cannot be built: main.tsx makes no script, or no style.");
  return { script, style: String(style) };
}

function isInstalled(): boolean {
  try {
    createRequire(import.meta.url).resolve("vite");
    return true;
  } catch {
    return false;
  }
}
