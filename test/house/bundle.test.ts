import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { expect, it, onTestFinished } from "vitest";
import { packedConsole } from "../../packages/millrace/cli/local/console.ts";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** A Worker that has the engine and no app: everything that its entry points for Workers offer. */
const ENGINE_ONLY = `
  import { engineRoutes } from "millrace/http";
  import { armKeeper, catalog, dispatch, keeper } from "millrace/worker";
  export { RateLimit } from "millrace/limits";
  export { Recorder } from "millrace/worker";
  const app = catalog({ consumers: [] });
  const api = engineRoutes(app);
  const consume = dispatch(app);
  export class Keeper extends keeper({ catalog: app }) {}
  export default {
    fetch(request, env, ctx) {
      armKeeper(env, ctx);
      return api.fetch(request, env, ctx);
    },
    queue: (batch, env) => consume(batch, env),
  };`;

/** The maximum size of such a Worker, minified, and in gzip: slightly above its current size. */
const MOST_KB = 940;
const MOST_GZIP_KB = 313;

/**
 * The maximum number of function calls while such a Worker starts: slightly above its current number, which takes 60 ms of a processor.
 * A start of more than 1 s is refused by the platform.
 */
const MOST_STARTING_CALLS = 19_600;

interface Plugged {
  onResolve(which: { filter: RegExp }, answer: (asked: { path: string }) => object): void;
  onLoad(which: { filter: RegExp; namespace: string }, answer: () => object): void;
}
interface Bundler {
  build(options: object): Promise<{
    metafile: { inputs: Record<string, object>; outputs: Record<string, { inputs: Record<string, { bytesInOutput: number }> }> };
    outputFiles: { contents: Uint8Array }[];
  }>;
}

/** A Worker that uses lanes and no other part of the engine. */
const LANES_ONLY = `
  import { defineLane, laneObject, laneOf } from "millrace/lanes";
  const orders = defineLane({ name: "orders", onFailure: "park", queue: (batch) => batch.ackAll() });
  export class Lanes extends laneObject([orders]) {}
  export default { fetch: async (_, env) => Response.json(await laneOf(env, orders, "4711").send({ paid: true })) };`;

/** The maximum size of such a Worker, minified. */
const MOST_LANES_KB = 37;

/** A page that calls an engine. */
const CLIENT_ONLY = `
  import { createClient } from "millrace/client";
  createClient({ token: "mr_" }).enqueue("greet", { name: "Ada" }).then(console.log);`;

/** The maximum size of the client, minified. */
const MOST_CLIENT_KB = 5.6;

it("a Worker with only the engine bundles no code of the app or the console, and no language of zod but English, within its size budget", async () => {
  const { files, kept, packages, kilobytes, gzip } = await bundle(ENGINE_ONLY);
  console.log(`An engine-only Worker: ${kilobytes.toFixed(0)} kB minified, ${gzip.toFixed(0)} in gzip; ${packages.join(", ")}.`);
  expect(files.filter((file) => !/^(packages\/millrace\/src\/|node_modules\/|worker\.js$|.*\/built\.js$)/.test(file))).toEqual([]);
  expect(packages.filter((name) => /csv|micromark|webhooks|slugify/.test(name))).toEqual([]);
  expect(kept.filter((file) => /zod\/.*\/locales\/(?!en\.|index\.)/.test(file))).toEqual([]);
  expect(kilobytes).toBeLessThan(MOST_KB);
  expect(gzip).toBeLessThan(MOST_GZIP_KB);
});

it("a Worker with only lanes bundles the lanes folder and its dependencies, and one npm package", async () => {
  const { kept, packages, kilobytes } = await bundle(LANES_ONLY);
  console.log(`A Worker of lanes alone: ${kilobytes.toFixed(0)} kB minified, ${packages.join(", ")}.`);
  // One line of it remains: the bundler wraps modules that a lazy import shares in functions.
  expect(
    kept.filter(
      (file) => !/^(packages\/millrace\/src\/(index\.ts$|(lanes|contract)\/)|node_modules\/fastest-levenshtein\/|worker\.js$)/.test(file),
    ),
  ).toEqual([]);
  expect(kilobytes).toBeLessThan(MOST_LANES_KB);
});

/** The console in the form of the package: its files are static assets, and the script only names them. */
const packed = {
  name: "packed-console",
  async setup({ onResolve }: Plugged) {
    const folder = mkdtempSync(join(tmpdir(), "millrace-bundle-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "built.js");
    await packedConsole(join(folder, "assets"), path);
    onResolve({ filter: /\/built\.js$/ }, () => ({ path }));
  },
};

it("the client bundles only its own file, within its size budget", async () => {
  const { files, kilobytes, gzip } = await bundle(CLIENT_ONLY);
  console.log(`A page with the client: ${kilobytes.toFixed(2)} kB minified, ${gzip.toFixed(2)} in gzip.`);
  expect(files).toEqual(["packages/millrace/src/client.ts", "worker.js"]);
  expect(kilobytes).toBeLessThan(MOST_CLIENT_KB);
});

/** The modules of the platform, for an evaluation outside the platform. */
const platform = {
  name: "platform",
  setup({ onResolve, onLoad }: Plugged) {
    const classes = ["DurableObject", "RpcTarget", "WorkerEntrypoint", "WorkflowEntrypoint", "NonRetryableError"];
    const contents = `${classes.map((name) => `export class ${name} {}`).join("\n")} export const exports = {}, env = {}, waitUntil = () => {};`;
    onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, namespace: "platform" }));
    onLoad({ filter: /./, namespace: "platform" }, () => ({ contents }));
  },
};

it("the start of a Worker with only the engine makes a bounded number of function calls", async () => {
  const { script } = await bundle(ENGINE_ONLY, [platform]);
  const calls = await startingCalls(script);
  console.log(`The start of an engine-only Worker: ${calls} function calls.`);
  expect(calls).toBeLessThan(MOST_STARTING_CALLS);
  const eager = ENGINE_ONLY.replace("const consume", `api.fetch(new Request("http://localhost/v1/instances"), {});\n  const consume`);
  expect(await startingCalls((await bundle(eager, [platform])).script), "routes built at the start").toBeGreaterThan(MOST_STARTING_CALLS);
});

/** The number of function calls of a module's evaluation. The number does not depend on the machine. */
async function startingCalls(script: Uint8Array): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-start-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "worker.mjs");
  const url = pathToFileURL(file).href;
  writeFileSync(file, script);
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await import(/* @vite-ignore */ url);
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  const functions = result.filter((one) => one.url === url).flatMap((one) => one.functions);
  return functions.flatMap(({ ranges }) => ranges).reduce((sum, { count }) => sum + count, 0);
}

/** A deployed Worker: the files read, the files with remaining code, their packages, and its size. */
async function bundle(contents: string, plugins: object[] = []) {
  const bundler: Bundler = createRequire(WRANGLER)("esbuild");
  const { metafile, outputFiles } = await bundler.build({
    ...{ absWorkingDir: ROOT, stdin: { contents, resolveDir: ROOT, sourcefile: "worker.js" } },
    ...{ bundle: true, minify: true, format: "esm", platform: "browser", target: "es2024", conditions: ["workerd", "worker", "browser"] },
    ...{
      external: [...(plugins.length > 0 ? [] : ["cloudflare:*"]), "node:*"],
      metafile: true,
      write: false,
      logLevel: "silent",
      alias: sourceDoors(),
    },
    plugins: [packed, ...plugins],
    define: { MILLRACE_CRASH_POINTS: "false" },
  });
  expect(new TextDecoder().decode(outputFiles[0]?.contents), "a deployment has no crash points").not.toContain("millraceCrashPoint");
  const named = (inputs: object) => Object.keys(inputs).map((file) => relative(ROOT, join(ROOT, file)));
  const files = named(metafile.inputs);
  const [output] = Object.values(metafile.outputs);
  const kept = named(Object.fromEntries(Object.entries(output?.inputs ?? {}).filter(([, { bytesInOutput }]) => bytesInOutput > 0)));
  const packagesOf = (paths: string[]) => new Set(paths.flatMap((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []));
  const script = outputFiles[0]?.contents ?? new Uint8Array();
  const [kilobytes, gzip] = [script.length / 1000, gzipSync(script).length / 1000];
  return { script, files, kept, packages: [...packagesOf(kept)].toSorted(), kilobytes, gzip };
}
