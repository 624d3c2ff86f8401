import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { packedConsole } from "../../packages/millrace/cli/local/console.ts";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { miniflare } from "../../packages/millrace/cli/local/miniflare.ts";
import { WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { script, style } from "../../packages/millrace/src/http/console/built.js";

const ROOT = resolve(import.meta.dirname, "../..");

const WORKER = `
  import { engineRoutes } from "millrace/http";
  import { catalog } from "millrace/worker";
  export { Recorder } from "millrace/worker";
  export default engineRoutes(catalog({ consumers: [] }));`;

interface Running {
  dispatchFetch(url: string): Promise<Response>;
  dispose(): Promise<void>;
}

/** A Worker built from the package, with the console packed into `folder`, and with or without its static assets. */
async function packed(folder: string, assets: object): Promise<{ ask: (path: string) => Promise<Response>; text: string }> {
  const built = join(folder, "built.js");
  await packedConsole(join(folder, "assets"), built);
  const bundler: { build(options: object): Promise<{ outputFiles: { text: string }[] }> } = createRequire(WRANGLER)("esbuild");
  const named = {
    name: "named-console",
    setup: (build: { onResolve(which: object, answer: () => object): void }) =>
      build.onResolve({ filter: /\/built\.js$/ }, () => ({ path: built })),
  };
  const { outputFiles } = await bundler.build({
    ...{ absWorkingDir: ROOT, stdin: { contents: WORKER, resolveDir: ROOT }, bundle: true, write: false, format: "esm", target: "es2024" },
    ...{ external: ["cloudflare:*", "node:*"], define: { MILLRACE_CRASH_POINTS: "false" }, logLevel: "silent", alias: sourceDoors() },
    plugins: [named],
  });
  const text = outputFiles[0]?.text ?? "";
  const { Miniflare, convertV4MiniflareOptions } = miniflare();
  const worker = new Miniflare(
    convertV4MiniflareOptions({
      ...{ modules: true, script: text, compatibilityDate: "2026-10-01", compatibilityFlags: ["nodejs_compat"], cf: false },
      ...{ d1Databases: ["DB"], r2Buckets: ["PAYLOADS"], durableObjects: { RECORDER: "Recorder", KEEPER: "Recorder" } },
      ...{ bindings: { MILLRACE_KEY: "a key of the tests" }, ...assets },
    }),
  ) as unknown as Running;
  onTestFinished(() => worker.dispose());
  return { text, ask: (path) => worker.dispatchFetch(`http://localhost${path}`) };
}

function folderOfTest(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-packed-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

const FILES = [script, style];

it("the package's console is not in a Worker's script: its page requests static assets, which browsers cache permanently", async () => {
  const folder = folderOfTest();
  const { ask, text } = await packed(folder, { assets: { directory: join(folder, "assets"), routerConfig: { has_user_worker: true } } });
  expect(text).not.toContain(script.text?.slice(0, 200));
  const page = await (await ask("/console")).text();
  for (const { name, text: said } of FILES) {
    expect(page).toContain(`/console/assets/${name}`);
    const file = await ask(`/console/assets/${name}`);
    expect([file.status, await file.text()]).toEqual([200, said]);
    expect(file.headers.get("content-type")).toMatch(/^text\/(css|javascript)/);
    expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(file.headers.get("x-content-type-options")).toBe("nosniff");
  }
});

it("if a Worker has no static assets of the console, the page and the response to its script name the line to add to wrangler.jsonc", async () => {
  const { ask } = await packed(folderOfTest(), {});
  expect(await (await ask("/console")).text()).toContain("node_modules/millrace/dist/assets");
  const file = await ask(`/console/assets/${script.name}`);
  expect([file.status, await file.json()]).toMatchObject([404, { detail: expect.stringContaining("node_modules/millrace/dist/assets") }]);
  const other = await ask("/console/assets/0000000000000000.js");
  expect([other.status, await other.json()]).toMatchObject([404, { detail: expect.stringContaining("Reload the page") }]);
});
