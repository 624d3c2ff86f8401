import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { miniflare } from "../../packages/millrace/cli/local/miniflare.ts";
import { WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** An app on a separate Hono, with the engine's routes, and its own routes after them. It prints the token for the engine's routes. */
const APP = `
  import { Hono } from "its-own-hono";
  import { Hono as OfLibrary } from "hono";
  import { engineRoutes } from "millrace/http";
  import { tokens } from "millrace/operate";
  import { catalog } from "millrace/worker";
  export { Recorder } from "millrace/worker";
  const mine = new Hono();
  mine.get("/copies", ({ text }) => text(String(Hono !== OfLibrary)));
  mine.get("/token", async ({ env, text }) => {
    await env.DB.exec(
      "CREATE TABLE millrace_tokens (id PRIMARY KEY, hash, tenant_id, actor, scopes, created_at, expires_at, minted_by, used_at, signed_in DEFAULT 0)",
    );
    return text(await tokens.mint(env, { tenantId: "acme", actor: "tess", scopes: ["tokens"] }));
  });
  mine.route("/", engineRoutes(catalog({ consumers: [] })));
  mine.post("/echo", async ({ req, text }) => text(await req.text()));
  export default mine;`;

interface Running {
  ready: Promise<unknown>;
  dispatchFetch(url: string, init?: RequestInit): Promise<Response>;
  dispose(): Promise<void>;
}

it("an app of another copy of Hono mounts the engine's routes: their queries are parsed, and the app's later routes have their bodies", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-hono-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(join(ROOT, "node_modules/hono"), join(folder, "hono"), { recursive: true });
  const bundler: { build(options: object): Promise<{ outputFiles: { text: string }[] }> } = createRequire(WRANGLER)("esbuild");
  const { outputFiles } = await bundler.build({
    ...{ absWorkingDir: ROOT, stdin: { contents: APP, resolveDir: ROOT }, bundle: true, write: false, format: "esm", target: "es2024" },
    ...{ external: ["cloudflare:*", "node:*"], define: { MILLRACE_CRASH_POINTS: "false" }, logLevel: "silent" },
    alias: { ...sourceDoors(), "its-own-hono": join(folder, "hono/dist/index.js") },
  });
  const { Miniflare, convertV4MiniflareOptions } = miniflare();
  const worker = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: outputFiles[0]?.text,
      ...{ compatibilityDate: "2026-10-01", compatibilityFlags: ["nodejs_compat"], cf: false },
      ...{ d1Databases: ["DB"], r2Buckets: ["PAYLOADS"], durableObjects: { RECORDER: "Recorder", KEEPER: "Recorder" } },
      bindings: { MILLRACE_KEY: "a key of the tests" },
    }),
  ) as unknown as Running;
  onTestFinished(() => worker.dispose());
  const ask = async (path: string, init?: RequestInit) => await worker.dispatchFetch(`http://localhost${path}`, init);
  expect(await (await ask("/copies")).text()).toBe("true");
  const headers = { authorization: `Bearer ${await (await ask("/token")).text()}` };
  const page = await ask("/v1/tokens?limit=1", { headers });
  expect([page.status, await page.json()]).toMatchObject([200, { items: [{ actor: "tess" }] }]);
  const unknown = await ask("/v1/tokens?limits=1", { headers });
  expect([unknown.status, await unknown.json()]).toMatchObject([422, { issues: [{ path: "limits" }] }]);
  const keyed = await ask("/v1/tokens", { method: "POST", headers: { ...headers, "idempotency-key": "k" }, body: "{}" });
  expect([keyed.status, await keyed.json()]).toMatchObject([422, { issues: [{ path: "Idempotency-Key" }] }]);
  expect(await (await ask("/echo", { method: "POST", body: "hello" })).text()).toBe("hello");
  expect((await ask("/nowhere")).status).toBe(404);
});
