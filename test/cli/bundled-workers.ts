import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, onTestFinished, vi } from "vitest";
import { BUNDLE } from "../../packages/millrace/cli/local/miniflare.ts";
import { insertToken } from "../../packages/millrace/cli/local/token.ts";
import { ROOT, WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { newToken } from "../../packages/millrace/src/contract/token.ts";
import { openMigrated } from "../migrations.ts";
import { emptyFolder } from "./folder.ts";

/** The part of the bundle's interface that is used here. */
interface Runtime {
  ready: Promise<unknown>;
  dispose(): Promise<void>;
  setOptions(options: object): Promise<void>;
  getWorker(name: string): Promise<{ fetch(url: string, init?: object): Promise<Response> }>;
  getD1Database(binding: string, worker: string): Promise<D1Database>;
}
interface Package {
  Miniflare: new (options: object) => Runtime;
  convertV4MiniflareOptions(options: object): object;
}
const { Miniflare, convertV4MiniflareOptions } = createRequire(WRANGLER)("miniflare") as Package;

/** A Worker as wrangler bundles and runs it. */
export function bundled(source: string, config: object): object {
  const folder = emptyFolder();
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "dir");
  writeFileSync(join(folder, "worker.ts"), source);
  writeFileSync(join(folder, "wrangler.jsonc"), JSON.stringify(config));
  const out = join(folder, "out");
  mkdirSync(out);
  execFileSync(process.execPath, [join(ROOT, "packages/millrace/cli/local/make-bundle.ts"), join(folder, "wrangler.jsonc"), out]);
  const options = JSON.parse(readFileSync(join(out, BUNDLE.options), "utf8"));
  const script = readFileSync(join(out, BUNDLE.entry), "utf8");
  const texts = readdirSync(out).filter((name) => name.endsWith(".md"));
  return {
    ...options,
    modulesRoot: out,
    modules: [
      { type: "ESModule", path: join(out, BUNDLE.entry), contents: script },
      ...texts.map((name) => ({ type: "Text", path: join(out, name) })),
    ],
  };
}

export const running = (workers: object[]) => convertV4MiniflareOptions({ cf: false, handleStructuredLogs: () => {}, workers });

export async function runtimeOf(...workers: object[]): Promise<Runtime> {
  const runtime = new Miniflare(running(workers));
  onTestFinished(() => runtime.dispose());
  await runtime.ready;
  return runtime;
}

/** The columns that a later migration may add to every table of the engine. */
const later = (table: string) => [
  `ALTER TABLE ${table} ADD COLUMN later TEXT`,
  `ALTER TABLE ${table} ADD COLUMN later_count INTEGER NOT NULL DEFAULT 0`,
  `CREATE INDEX ${table}_later ON ${table} (later)`,
];

/** Creates the tables, and a token in them; with `isLater`, as a later version of the engine may have them. */
export async function prepared(runtime: Runtime, name: string, { isLater = false } = {}) {
  const database = await runtime.getD1Database("DB", name);
  const made = openMigrated();
  const order = ["table", "index", "trigger"].map((type) =>
    made.prepare("SELECT sql FROM sqlite_master WHERE type = ? AND sql > ''").all(type),
  );
  const tables = made.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'millrace_%'").all();
  const added = isLater ? tables.flatMap((table) => later(String(table.name))) : [];
  await database.batch([...order.flat().map(({ sql }) => String(sql)), ...added].map((text) => database.prepare(text)));
  const { text: token } = newToken();
  await database.prepare(insertToken(token).replace(/;\s*$/, "")).run();
  const ask = async (path: string, body?: object, other = name) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    // A runtime with new options has new stubs.
    const worker = await runtime.getWorker(other);
    const answer = await worker.fetch(`http://localhost${path}`, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
    return (await answer.json()) as Record<string, unknown>;
  };
  return {
    ask,
    workflows: async () =>
      (await database.prepare("SELECT workflow FROM millrace_instances ORDER BY workflow").all()).results.map((row) => row.workflow),
    /** Sends a command, and returns its instance once it has this status. */
    async runs(type: string, name: string, status = "complete") {
      const { instance_id: id } = await ask("/v1/commands", { type, payload: { name } });
      return vi.waitFor(
        async () => {
          const instance = await ask(`/v1/instances/${id}`);
          expect(instance).toMatchObject({ status });
          return instance;
        },
        { timeout: 60_000, interval: 200 },
      );
    },
  };
}
