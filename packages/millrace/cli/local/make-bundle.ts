// A separate process that bundles a Worker as wrangler would deploy it, and writes the options with which wrangler would run it. Wrangler
// takes most of a second to load, and wrangler's command for a bundle loads wrangler a second time.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, parse, resolve } from "node:path";
import { unstable_readConfig as readConfig, unstable_getMiniflareWorkerOptions as workerOptions } from "wrangler";
import { sourceDoors } from "./doors.ts";
import { BUNDLE } from "./miniflare.ts";
import { WRANGLER } from "./wrangler.ts";

const [config = "", bundle = ""] = process.argv.slice(2);
const read = readConfig({ config }, { hideWarnings: true });

interface Bundler {
  build(options: object): Promise<unknown>;
}
interface Plugged {
  onResolve(which: { filter: RegExp }, answer: (asked: { path: string; resolveDir: string }) => object): void;
}

/**
 * An esbuild plugin that imports a Markdown file as a text module beside the bundle. The name of the module contains the digest of its
 * text.
 */
const texts = {
  name: "texts",
  setup({ onResolve }: Plugged) {
    onResolve({ filter: /\.md$/ }, ({ path, resolveDir }) => {
      const file = resolve(resolveDir, path);
      const text = readFileSync(file);
      const name = `${createHash("sha1").update(text).digest("hex")}-${basename(file)}`;
      writeFileSync(join(bundle, name), text);
      return { path: `./${name}`, external: true };
    });
  },
};

mkdirSync(bundle, { recursive: true });
const bundler: Bundler = createRequire(WRANGLER)("esbuild");
const ofDeployments = Object.fromEntries(
  ["process", "global.process", "globalThis.process"].map((of) => [`${of}.env.NODE_ENV`, '"production"']),
);
await bundler.build({
  ...{
    absWorkingDir: dirname(config),
    entryPoints: { [parse(BUNDLE.entry).name]: read.main ?? "" },
    outdir: bundle,
    plugins: [texts],
    alias: sourceDoors(),
    logLevel: "error",
  },
  ...{ bundle: true, format: "esm", target: "es2024", platform: "browser", conditions: ["workerd", "worker", "browser"], keepNames: true },
  ...{ external: ["node:*", "cloudflare:*"], loader: { ".js": "jsx", ".mjs": "jsx", ".cjs": "jsx" } },
  ...{ sourcemap: true, sourceRoot: bundle },
  define: { "navigator.userAgent": '"Cloudflare-Workers"', ...ofDeployments, ...read.define },
});

const { rootPath: _, modulesRules: __, ...options } = workerOptions(read).workerOptions as Record<string, unknown>;
// The bundle gets only the variables of the configuration, because an engine may run without the variables of .dev.vars.
writeFileSync(join(bundle, BUNDLE.options), JSON.stringify({ ...options, name: read.name, bindings: read.vars }));
