import { createRequire } from "node:module";
import { join, relative, resolve } from "node:path";
import { expect, it } from "vitest";
import { WRANGLER } from "../../src/cli/local/wrangler.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** A Worker that has the engine and no app: everything that its doors for Workers offer. */
const ENGINE_ONLY = `
  import { engineRoutes } from "millrace/http";
  import { armKeeper, catalog, dispatch, keeper } from "millrace/worker";
  export { RateLimit, Recorder } from "millrace/worker";
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

/** What such a Worker may weigh, minified: a little more than it does. */
const MOST_KB = 840;

interface Bundler {
  build(options: object): Promise<{ metafile: { inputs: Record<string, object> }; outputFiles: { contents: Uint8Array }[] }>;
}

it("a Worker of the engine alone bundles nothing of the app, and weighs what it may", async () => {
  const bundler: Bundler = createRequire(WRANGLER)("esbuild");
  const { metafile, outputFiles } = await bundler.build({
    ...{ absWorkingDir: ROOT, stdin: { contents: ENGINE_ONLY, resolveDir: ROOT, sourcefile: "engine-only.js" } },
    ...{ bundle: true, minify: true, format: "esm", platform: "browser", target: "es2024", conditions: ["workerd", "worker", "browser"] },
    ...{ external: ["cloudflare:*", "node:*"], metafile: true, write: false, logLevel: "silent" },
    define: { MILLRACE_CRASH_POINTS: "false" },
  });
  const files = Object.keys(metafile.inputs).map((file) => relative(ROOT, join(ROOT, file)));
  const packages = new Set(files.flatMap((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []));
  const kilobytes = (outputFiles[0]?.contents.length ?? 0) / 1000;
  console.log(`An engine-only Worker: ${kilobytes.toFixed(0)} kB minified, ${[...packages].toSorted().join(", ")}.`);
  expect(files.filter((file) => !/^(src\/engine\/|node_modules\/|engine-only\.js$)/.test(file))).toEqual([]);
  expect([...packages].filter((name) => /csv|micromark|webhooks|slugify/.test(name))).toEqual([]);
  expect(kilobytes).toBeLessThan(MOST_KB);
});
