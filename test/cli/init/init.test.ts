import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findProject } from "../../../packages/millrace/cli/project.ts";
import { type Config, readConfig } from "../../../packages/millrace/cli/wiring/config.ts";
import { builtPackage, run, userFolder } from "./installed.ts";
import { SHAPES } from "./shapes.ts";

let built: ReturnType<typeof builtPackage>;
beforeAll(() => {
  built = builtPackage();
}, 120_000);
afterAll(() => built.remove());

const TSCONFIG = JSON.stringify({
  compilerOptions: {
    ...{ target: "es2024", lib: ["es2024"], module: "esnext", moduleResolution: "bundler", types: ["@cloudflare/workers-types"] },
    ...{ strict: true, noEmit: true, skipLibCheck: true, noImplicitOverride: true },
  },
  include: ["src", "worker", "index.ts"],
});

/** True where every word, text and bracket of a text is in the other one, in the same order: comments, too. */
function isKept(before: string, after: string): boolean {
  const tokens = (text: string) => text.match(/"(?:[^"\\\n]|\\.)*"|[^\s,{}[\]"]+|[{}[\]]/g) ?? [];
  const all = tokens(after).values();
  return tokens(before).every((token) => all.some((one) => one === token));
}

it.each(SHAPES)("init adds the engine to $title, and the second time changes nothing", ({ files, isEdited = true }) => {
  const root = userFolder(built.folder, { "package.json": '{ "type": "module" }', "tsconfig.json": TSCONFIG, ...files });
  const refused = run(root, "millrace", "init");
  expect([refused.code, refused.err]).toEqual([2, ""]);
  expect(refused.out).toContain("npx millrace init --yes");
  const project = findProject({ from: root });
  const name = Object.keys(files).find((file) => file.startsWith("wrangler.")) ?? "";
  expect(readFileSync(join(root, name), "utf8")).toBe(files[name]);

  const first = run(root, "millrace", "init", "--yes");
  expect(first).toMatchObject({ code: 0, err: "" });
  expect(first.out).not.toContain("is not extended safely");
  const after = readFileSync(join(root, name), "utf8");
  expect(isKept(files[name] ?? "", after), after).toBe(true);
  const source = readFileSync(join(root, project.main), "utf8");
  expect(source !== files[project.main]).toBe(isEdited);
  if (!isEdited) expect(first.out).toContain("export const { handler, catalog, Runs, Recorder, Keeper } = millrace({");

  const second = run(root, "millrace", "init", "--yes");
  expect(second.out).toContain("Nothing to change");
  expect(readFileSync(join(root, name), "utf8")).toBe(after);

  // Shown once, and never printed.
  const [, key = ""] = /MILLRACE_KEY=(\S+)/.exec(readFileSync(join(root, ".dev.vars"), "utf8")) ?? [];
  expect(key).toMatch(/^[\w-]{43}$/);
  expect(refused.out + first.out + second.out).not.toContain(key);

  if (!isEdited) return;
  const bundled = run(root, "wrangler", "deploy", "--dry-run", "--outdir", join(root, ".wrangler/out"));
  expect(bundled.code, bundled.err + bundled.out).toBe(0);
  expect(run(root, "tsc", "-p", root).out).toBe("");
});

const configured = (root: string) => readConfig(findProject({ from: root }).config) as Config & { exports?: object; assets?: object };

const initialized = (index: number) => {
  const root = userFolder(built.folder, { "package.json": "{}", ...SHAPES[index]?.files });
  const { out } = run(root, "millrace", "init", "--yes");
  return { root, out, config: configured(root) };
};

it("the written configuration has the settings that production needs", () => {
  const { root, config } = initialized(1);
  expect(config).toMatchObject({
    compatibility_flags: ["nodejs_compat", "global_fetch_strictly_public", "queue_consumer_no_wait_for_wait_until"],
    limits: { subrequests: 10_000_000, cpu_ms: 300_000 },
    secrets: { required: ["MILLRACE_KEY"] },
    durable_objects: { code_update_strategy: { mode: "deferred", max_delay: 60 } },
    exports: {
      Recorder: { type: "durable-object", storage: "sqlite" },
      Keeper: { type: "durable-object", storage: "sqlite" },
      Runs: { type: "workflow", name: "hono-app-runs" },
    },
    d1_databases: [{ binding: "DB", database_name: "hono-app" }],
    r2_buckets: [{ binding: "PAYLOADS", bucket_name: "hono-app-payloads" }],
    triggers: { crons: ["* * * * *"] },
    vars: { GREETING: "Hello", QUEUE_PREFIX: "hono-app-" },
    queues: {
      producers: [
        { binding: "MILLRACE_QUEUE", queue: "hono-app-millrace" },
        { binding: "MILLRACE_DEAD_LETTERS", queue: "hono-app-millrace-dlq" },
      ],
      consumers: [{ queue: "hono-app-millrace", dead_letter_queue: "hono-app-millrace-dlq" }, { queue: "hono-app-millrace-dlq" }],
    },
    assets: { directory: "node_modules/millrace/dist/assets" },
    minify: true,
    keep_names: false,
  });
  expect(config.d1_databases?.[0]?.database_id).toBeUndefined();
  expect(readFileSync(join(root, ".gitignore"), "utf8").split("\n")).toEqual(expect.arrayContaining([".dev.vars", ".millrace"]));
});

it("a database under another name is bound as DB, too, and the cron of a Worker runs at its own times alone", () => {
  const { root, config } = initialized(2);
  const [tasks, own] = config.d1_databases ?? [];
  expect(own).toEqual({ ...tasks, binding: "DB" });
  expect(readFileSync(join(root, "src/index.ts"), "utf8")).toContain('  scheduled: worker.scheduled,\n  engineCron: "* * * * *",');
});

it("beside migrations of Durable Objects, the engine's objects are bound, and have a migration", () => {
  const { config } = initialized(3);
  expect(Object.keys(config.exports ?? {})).toEqual(["Runs"]);
  expect(config.durable_objects?.bindings?.map(({ class_name }) => class_name)).toEqual(["Room", "Recorder", "Keeper"]);
  expect(config.migrations?.map(({ new_sqlite_classes }) => new_sqlite_classes)).toEqual([["Room"], ["Recorder", "Keeper"]]);
});

it("a site keeps its assets: the console's files are copied into them, and the engine's paths are the Worker's", () => {
  const { root, config } = initialized(5);
  expect(config.assets).toMatchObject({
    directory: "dist/client",
    run_worker_first: expect.arrayContaining(["/v1/*", "!/console/assets/*"]),
  });
  expect(existsSync(join(root, "public/console/assets"))).toBe(true);
});

it("init --env adds to an environment the settings that it does not inherit", () => {
  const { root, out } = initialized(6);
  expect(out).toContain("npx millrace init --env staging");
  expect(run(root, "millrace", "init", "--yes", "--env", "staging").code).toBe(0);
  const { d1_databases, queues, r2_buckets, exports } = (configured(root).env?.staging ?? {}) as Config;
  expect(d1_databases?.length).toBe(1);
  expect(r2_buckets).toEqual([{ binding: "PAYLOADS", bucket_name: "shop-staging-payloads" }]);
  expect(queues?.producers?.[0]).toEqual({ binding: "MILLRACE_QUEUE", queue: "shop-staging-millrace" });
  expect(exports).toBeUndefined();
});

it("a mistake in a configuration is named with its line, and nothing is changed", () => {
  const root = userFolder(built.folder, { "wrangler.jsonc": '{\n  "name": "x"\n  "main": "a.ts"\n}\n' });
  const { code, err } = run(root, "millrace", "init", "--yes");
  expect([code, err]).toEqual([1, expect.stringContaining("wrangler.jsonc:3 is not JSON")]);
});

it("init in an empty folder makes a Worker that compiles and bundles, and init NAME makes one in a new folder", () => {
  const root = userFolder(built.folder, {});
  expect(run(root, "millrace", "init", "my-worker", "--dry-run")).toMatchObject({ code: 0, err: "" });
  expect(existsSync(join(root, "my-worker"))).toBe(false);
  expect(run(root, "millrace", "init", "--yes")).toMatchObject({ code: 0, err: "" });
  expect(run(root, "tsc", "-p", root).out).toBe("");
  const bundled = run(root, "wrangler", "deploy", "--dry-run", "--outdir", join(root, ".wrangler/out"));
  expect(bundled.code, bundled.err + bundled.out).toBe(0);
  expect(run(root, "millrace", "init", "--yes").out).toContain("Nothing to change");
  expect(run(root, "millrace", "init", "my-worker", "--yes")).toMatchObject({ code: 0, err: "" });
  expect(readFileSync(join(root, "my-worker/wrangler.jsonc"), "utf8")).toContain('"name": "my-worker"');
});

it("a list or a table that TOML cannot extend is named with its value, and the rest is written", () => {
  const root = userFolder(built.folder, {
    "wrangler.toml": 'name = "x"\nmain = "i.ts"\nqueues = { producers = [] }\ncompatibility_date = "2026-10-01"\n',
    "i.ts": "export default { fetch: () => new Response() };\n",
  });
  const { code, out } = run(root, "millrace", "init", "--yes");
  expect(code).toBe(0);
  expect(out).toContain('Add to queues.producers: [{"binding":"MILLRACE_QUEUE","queue":"x-millrace"}');
  expect(configured(root)).toMatchObject({ limits: { cpu_ms: 300_000 }, queues: { producers: [] }, d1_databases: [{ binding: "DB" }] });
});
