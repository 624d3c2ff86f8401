// Builds the package into `dist` or the folder in the argument: JavaScript and declarations of the library, the command line, and the
// console.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, globSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { packedConsole } from "../cli/local/console.ts";
import { WRANGLER } from "../cli/local/wrangler.ts";
import { COMMANDS } from "../cli/names.js";
import { bundleDeclarations } from "./declarations.ts";

const PACKAGE = join(import.meta.dirname, "..");
const [, , DIST = join(PACKAGE, "dist")] = process.argv;
const TSC = join(PACKAGE, "../../node_modules/typescript/bin/tsc");
const BUILT = "src/http/console/built";
const OPERATIONS = "operate/operations.json";

interface Bundler {
  build(options: object): Promise<unknown>;
}
interface Plugged {
  onResolve(which: { filter: RegExp }, answer: (asked: { path: string; resolveDir: string }) => object | undefined): void;
  onLoad(which: { filter: RegExp }, answer: (asked: { path: string }) => object | undefined): void;
}

const { exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
  exports: Record<string, string | { types: string; default: string }>;
};
const doors = Object.values(exports).flatMap((to) => (typeof to === "string" ? [] : [to]));

rmSync(DIST, { recursive: true, force: true });
compile("tsconfig.types.json");
await packedConsole(join(DIST, "assets"), join(DIST, `${BUILT}.js`));
cpSync(join(PACKAGE, `${BUILT}.d.ts`), join(DIST, `${BUILT}.d.ts`));
await bundle();
rmSync(join(DIST, `${BUILT}.js`));
compile("tsconfig.build.json", "--noResolve");
cpSync(join(PACKAGE, "cli", OPERATIONS), join(DIST, "cli", OPERATIONS));
await bundleCommands();
bundleDeclarations(
  DIST,
  doors.map(({ types }) => types.replace("./dist", DIST)),
);

// The types are checked by `npm run check`.
function compile(project: string, ...options: string[]): void {
  execFileSync(process.execPath, [TSC, "-p", join(PACKAGE, project), "--noCheck", "--outDir", DIST, ...options], { stdio: "inherit" });
}

/**
 * Bundles each entry point into one file, with shared code in chunks. The package then has 27 files instead of 600, and its packed size is
 * four fifths of the size without bundling.
 */
async function bundle(): Promise<void> {
  const bundler: Bundler = createRequire(WRANGLER)("esbuild");
  const console = {
    name: "console",
    setup: ({ onResolve }: Plugged) => onResolve({ filter: /\/built\.js$/ }, () => ({ path: join(DIST, `${BUILT}.js`) })),
  };
  const statements = {
    name: "statements",
    setup: ({ onLoad }: Plugged) => onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => withoutIndents(readFileSync(path, "utf8"))),
  };
  await bundler.build({
    entryPoints: [...doors.map((door) => door.default.replace(/^\.\/dist\/(.*)\.js$/, "$1.ts")), ...usedByCommands(), "src/check/walk.ts"],
    ...{
      absWorkingDir: PACKAGE,
      outdir: join(DIST, "src"),
      outbase: "src",
      chunkNames: "chunks/[name]-[hash]",
      plugins: [console, statements],
    },
    ...{ bundle: true, splitting: true, format: "esm", target: "es2024", platform: "neutral", packages: "external" },
    ...{ external: ["cloudflare:*", "node:*"], minify: true, legalComments: "none", logLevel: "error" },
  });
}

/** Removes the indentation of a source file with SQL, because the minifier keeps it in template literals. */
function withoutIndents(source: string): object | undefined {
  return source.includes("sql`") ? { contents: source.replaceAll(/\n +/g, "\n"), loader: "ts" } : undefined;
}

/**
 * Bundles each command into one file, with shared code in chunks. Files that other code finds by their path are not bundled, and neither
 * are the imports of such files.
 */
async function bundleCommands(): Promise<void> {
  const bundler: Bundler = createRequire(WRANGLER)("esbuild");
  const cli = join(DIST, "cli");
  const files = globSync("**/*.js", { cwd: cli }).map((file) => join(cli, file));
  const foundIn = (file: string, pattern: RegExp, ending = "") =>
    [...readFileSync(file, "utf8").matchAll(pattern)].map(([, path = ""]) => join(dirname(file), `${path}${ending}`));
  const placed = files.filter((file) => readFileSync(file, "utf8").includes("import.meta"));
  const kept = new Set(placed.flatMap((file) => [file, ...foundIn(file, /besideOf\(import\.meta\.filename, "([\w-]+)"/g, ".js")]));
  for (const file of kept) for (const path of foundIn(file, /from "(\.[^"]+)"/g)) if (files.includes(path)) kept.add(path);
  const resolve = ({ path, resolveDir }: { path: string; resolveDir: string }) => {
    const file = join(resolveDir, path);
    return files.includes(file) && !kept.has(file) ? undefined : { path: `./${relative(cli, file)}`, external: true };
  };
  const common = { outdir: cli, outbase: cli, allowOverwrite: true, format: "esm", platform: "node", minify: true, logLevel: "error" };
  const commands = ["operate", ...Object.keys(COMMANDS)].map((name) => join(cli, `${name}.js`)).filter((file) => files.includes(file));
  await bundler.build({
    ...{ ...common, entryPoints: commands, bundle: true, splitting: true, packages: "external" },
    // Only relative imports are resolved here, because the paths of the entry points are absolute.
    plugins: [{ name: "kept", setup: ({ onResolve }: Plugged) => onResolve({ filter: /^\./ }, resolve) }],
  });
  await bundler.build({ ...common, entryPoints: [...kept] });
  for (const file of files) if (!kept.has(file) && !commands.includes(file)) rmSync(file);
}

/** The files of the library that the command line imports. */
function usedByCommands(): string[] {
  const files = readdirSync(join(PACKAGE, "cli"), { recursive: true, encoding: "utf8" }).filter((file) => /\.[jt]s$/.test(file));
  const used = files.flatMap((file) =>
    [
      ...readFileSync(join(PACKAGE, "cli", file), "utf8").matchAll(
        /^(?:import|export) (?!type).*"(?:\.\.\/)+(src\/[^"]+\.ts)"|import\("(?:\.\.\/)+(src\/[^"]+\.ts)"\)/gm,
      ),
    ].map(([, one, other]) => one ?? other ?? ""),
  );
  return [...new Set(used)].filter((file) => existsSync(join(PACKAGE, file)));
}
