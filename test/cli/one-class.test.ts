import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { BUNDLE } from "../../packages/millrace/cli/local/miniflare.ts";
import { insertToken } from "../../packages/millrace/cli/local/token.ts";
import { ROOT, WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { newToken } from "../../packages/millrace/src/contract/token.ts";
import { openMigrated } from "../migrations.ts";
import { emptyFolder } from "./folder.ts";

/** As far as it is used here. */
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

const chain = (name: string, said: string) => `const ${name} = defineWorkflow({
  name: "${name}",
  input: z.object({ name: z.string() }),
  key: ({ name }) => name,
  run: ({ input, step }) => step.commit("say it", () => ({ output: { said: \`${said}, \${input.name}.\` } })),
});`;

const program = (...chains: [name: string, said: string][]) => `import { defineWorkflow, millrace } from "millrace";
import * as z from "zod";
${chains.map(([name, said]) => chain(name, said)).join("\n")}
export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [${chains.map(([name]) => name).join(", ")}] });
export default handler;`;

const GREET = ["greet", "Good morning"] as const;

/** No binding and no class for a workflow, and no line that a second workflow would change. */
const configuration = (name: string, prefix = "") => ({
  name,
  main: "worker.ts",
  compatibility_date: "2026-10-01",
  compatibility_flags: ["nodejs_compat", "queue_consumer_no_wait_for_wait_until"],
  vars: { MILLRACE_KEY: "test", ...(prefix && { QUEUE_PREFIX: prefix }) },
  d1_databases: [{ binding: "DB", database_name: name, database_id: name }],
  r2_buckets: [{ binding: "PAYLOADS", bucket_name: `${name}-payloads` }],
  exports: {
    Recorder: { type: "durable-object", storage: "sqlite" },
    Keeper: { type: "durable-object", storage: "sqlite" },
    Runs: { type: "workflow", name: `${name}-runs` },
  },
  queues: {
    producers: [{ binding: "MILLRACE_QUEUE", queue: `${prefix}millrace` }],
    consumers: [
      { queue: `${prefix}millrace`, max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, dead_letter_queue: `${prefix}millrace-dlq` },
      { queue: `${prefix}millrace-dlq`, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100 },
    ],
  },
});

/** A Worker as wrangler would bundle and run it. */
function bundled(source: string, config: object): object {
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

const running = (workers: object[]) => convertV4MiniflareOptions({ cf: false, handleStructuredLogs: () => {}, workers });

async function runtimeOf(...workers: object[]): Promise<Runtime> {
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

/** The tables, and a token in them; with `isLater`, as a later version of the engine may have them. */
async function prepared(runtime: Runtime, name: string, { isLater = false } = {}) {
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
  const ask = async (path: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    // A runtime with new options has new stubs.
    const worker = await runtime.getWorker(name);
    const answer = await worker.fetch(`http://localhost${path}`, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
    return (await answer.json()) as Record<string, unknown>;
  };
  return {
    ask,
    workflows: async () =>
      (await database.prepare("SELECT workflow FROM millrace_instances ORDER BY workflow").all()).results.map((row) => row.workflow),
    /** Asks for a command, and answers its instance once it has this status. */
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

it("a second workflow in the list of a Worker runs with the same configuration and the same exports", async () => {
  const config = configuration("one");
  const first = bundled(program([...GREET]), config);
  const runtime = await runtimeOf(first);
  const { runs, ask } = await prepared(runtime, "one");
  expect(await runs("greet", "Ada")).toMatchObject({ workflow: "greet", result: { said: "Good morning, Ada." } });
  expect(await ask("/v1/commands", { type: "part", payload: { name: "Ada" } })).toMatchObject({ code: "unknown_message_type" });

  await runtime.setOptions(running([bundled(program([...GREET], ["part", "Good bye"]), config)]));
  expect(await runs("part", "Ada")).toMatchObject({ workflow: "part", result: { said: "Good bye, Ada." } });
  expect(await runs("greet", "Bob")).toMatchObject({ workflow: "greet", result: { said: "Good morning, Bob." } });
});

it("two environments of one account with one catalog each consume their own queues, by QUEUE_PREFIX", async () => {
  const source = program([...GREET]);
  const [live, staging] = [bundled(source, configuration("live")), bundled(source, configuration("staging", "staging-"))];
  const runtime = await runtimeOf(live, staging);
  const [one, other] = [await prepared(runtime, "live"), await prepared(runtime, "staging")];
  expect(await other.runs("greet", "Ada")).toMatchObject({ result: { said: "Good morning, Ada." } });
  expect(await one.workflows()).toEqual([]);
  expect(await one.runs("greet", "Ada")).toMatchObject({ result: { said: "Good morning, Ada." } });
  expect(await other.workflows()).toEqual(["greet"]);
});

it("an engine runs on the schema of a later version: a chain completes, and a failed one is retried", async () => {
  const source = program([...GREET])
    .replace("workflows: [greet]", "workflows: [greet, part]")
    .replace(
      "export const { handler",
      `let failures = 0;
const part = defineWorkflow({
  name: "part",
  input: z.object({ name: z.string() }),
  key: ({ name }) => name,
  async run({ input, step }) {
    const { said } = await step.commit("say it", () => ({ output: { said: input.name } }));
    if (failures++ === 0) throw new Error("The door is shut.");
    return { said };
  },
});
export const { handler`,
    );
  const { runs, ask } = await prepared(await runtimeOf(bundled(source, configuration("late"))), "late", { isLater: true });
  expect(await ask("/healthz")).toMatchObject({ ok: true });
  expect(await runs("greet", "Ada")).toMatchObject({ result: { said: "Good morning, Ada." } });
  const { id } = await runs("part", "Ada", "errored");
  expect(await ask(`/v1/instances/${id}/retry`, { reason: "The door is open." })).toMatchObject({ action_id: expect.any(String) });
  expect(await runs("part", "Ada")).toMatchObject({ id, result: { said: "Ada" } });
});
