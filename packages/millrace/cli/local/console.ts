import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Refusal } from "../command.ts";
import { digestOf } from "./made-once.ts";
import { ROOT } from "./wrangler.ts";

const SOURCES = join(ROOT, "packages/millrace/console");
/** What the Worker imports: a module of the two texts, which git does not have. */
const BUILT = join(ROOT, "packages/millrace/src/http/console/built.js");
/** What a build follows from. */
const FROM = [SOURCES, join(import.meta.dirname, "console.ts"), join(ROOT, "package-lock.json")];
/** Browsers that have `light-dark()` and everything else that is used. */
const BROWSERS = ["chrome125", "firefox125", "safari17.5"];

/**
 * Builds the console, unless it was built of the same files before: this is the one place that knows whether it is fresh, and everything
 * that bundles the Worker calls it first. Errors: a `Refusal` with the bundler's words, where the sources cannot be built.
 */
export async function builtConsole(): Promise<void> {
  // The installed package has it built, and no sources.
  if (!existsSync(SOURCES)) return;
  const made = `// Made of packages/millrace/console ${digestOf(FROM)}. Change that, and never this.\n`;
  if (existsSync(BUILT) && readFileSync(BUILT, "utf8").startsWith(made)) return;
  const { script, style } = await built();
  const text = `${made}export const script = ${named(script, "js")};\nexport const style = ${named(style, "css")};\n`;
  // As a whole or as it was: two may build at once.
  const making = `${BUILT}.${process.pid}`;
  writeFileSync(making, text);
  renameSync(making, BUILT);
}

/** Writes the package's console: its files in the folder `assets`, for a Worker's static assets, and a `module` with their names alone. */
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

/** The same headers as the Worker sends: a file has the digest of its text in its name. */
const HEADERS = `/console/assets/*
  cache-control: public, max-age=31536000, immutable
  x-content-type-options: nosniff
`;

function named(text: string, ending: string): string {
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return JSON.stringify({ name: `${digest}.${ending}`, text });
}

/** As far as they are used here. */
interface Output {
  output: readonly { fileName: string; code?: string; source?: string | Uint8Array }[];
}

async function built(): Promise<{ script: string; style: string }> {
  if (!isInstalled()) throw new Refusal("The console is not built, and the packages that build it are not installed: run `npm install`.");
  const { build } = await import("vite");
  const options = {
    // The same whoever asks: a run of tests says of itself that it is one, and would be given a larger build.
    ...{ configFile: false, root: SOURCES, logLevel: "silent", mode: "production", define: { "process.env.NODE_ENV": '"production"' } },
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
