import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { writeAll } from "../../../packages/millrace/cli/init/files.ts";
import { changesOf } from "../../../packages/millrace/cli/init/wanted.ts";
import { findProject } from "../../../packages/millrace/cli/project.ts";
import { type Config, readConfig } from "../../../packages/millrace/cli/wiring/config.ts";
import { apply, movesOf } from "../../docs/walk.ts";
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
    ...{ strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: true, noImplicitOverride: true },
  },
  include: ["src", "worker", "index.ts"],
});

/** True if every word, string and bracket of a text is in the other text, in the same order, including comments. */
function isKept(before: string, after: string): boolean {
  const tokens = (text: string) => text.match(/"(?:[^"\\\n]|\\.)*"|[^\s,{}[\]"]+|[{}[\]]/g) ?? [];
  const all = tokens(after).values();
  return tokens(before).every((token) => all.some((one) => one === token));
}

it.each(SHAPES)("init adds the engine to $title, and changes nothing the second time", ({ files, isEdited = true }) => {
  const root = userFolder(built.folder, { "package.json": '{ "type": "module" }', "tsconfig.json": TSCONFIG, ...files });
  const refused = run(root, "millrace", "init");
  expect([refused.code, refused.err]).toEqual([2, ""]);
  expect(refused.out).toContain("npx millrace init --yes");
  const project = findProject({ from: root });
  const name = Object.keys(files).find((file) => file.startsWith("wrangler.")) ?? "";
  expect(readFileSync(join(root, name), "utf8")).toBe(files[name]);

  const first = run(root, "millrace", "init", "--yes");
  expect(first).toMatchObject({ code: isEdited ? 0 : 1, err: "" });
  expect(first.out).not.toContain("init cannot extend safely");
  const after = readFileSync(join(root, name), "utf8");
  expect(isKept(files[name] ?? "", after), after).toBe(true);
  const source = readFileSync(join(root, project.main), "utf8");
  expect(source !== files[project.main]).toBe(isEdited);
  if (!isEdited) expect(first.out).toContain(`Not complete: paste the lines above into ${project.main}. Next: npx millrace dev`);

  const second = run(root, "millrace", "init", "--yes");
  expect(second.out).toContain(isEdited ? "Nothing to change" : "Not complete: paste");
  expect(readFileSync(join(root, name), "utf8")).toBe(after);

  // The key is shown once, and never printed.
  const [, key = ""] = /MILLRACE_KEY=(\S+)/.exec(readFileSync(join(root, ".dev.vars"), "utf8")) ?? [];
  expect(key).toMatch(/^[\w-]{43}$/);
  expect(refused.out + first.out + second.out).not.toContain(key);

  if (!isEdited) writeFileSync(join(root, project.main), pasted(source, first.out));
  const bundled = run(root, "wrangler", "deploy", "--dry-run", "--outdir", join(root, ".wrangler/out"));
  expect(bundled.code, bundled.err + bundled.out).toBe(0);
  expect(run(root, "tsc", "-p", root).out).toBe("");
});

/** A source after the manual steps that `init` prints: one replaced line, lines at the top, and lines at the end. */
function pasted(source: string, out: string): string {
  const [, put = "", place = ""] = /: write `([^`]+)` in place of `([^`]+)`/.exec(out) ?? [];
  const [, top = "", end = ""] = /at the top:\n\n([^\n]+)\n\n[^\n]+\n\n([\s\S]+?\nexport default [^\n]+\n)/.exec(out) ?? [];
  expect(source).toContain(place);
  return `${top}\n${source.replace(place, put)}\n${end}`;
}

const configured = (root: string) => readConfig(findProject({ from: root }).config) as Config & { exports?: object; assets?: object };

const initialized = (index: number) => {
  const root = userFolder(built.folder, { "package.json": "{}", ...SHAPES[index]?.files });
  const { out } = run(root, "millrace", "init", "--yes");
  return { root, out, config: configured(root) };
};

it("init writes the settings that production needs", () => {
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
  });
  expect([Object.keys(config), readFileSync(join(root, "wrangler.jsonc"), "utf8")]).toEqual([
    expect.not.arrayContaining(["minify", "keep_names"]),
    expect.stringMatching(/\/\/ Optional: [^\n]+strictly_public[^\n]+\n +"compatibility_flags"[\s\S]+\/\/ Optional: [^\n]+\n +"limits"/),
  ]);
  expect(config.d1_databases?.[0]?.database_id).toBeUndefined();
  expect(readFileSync(join(root, ".gitignore"), "utf8").split("\n")).toEqual(expect.arrayContaining([".dev.vars", ".millrace"]));
});

it("init also binds a database with another binding name as DB, and a Worker's cron handler still runs only at the Worker's own cron times", () => {
  const { root, config } = initialized(2);
  const [tasks, own] = config.d1_databases ?? [];
  expect(own).toEqual({ ...tasks, binding: "DB" });
  expect(readFileSync(join(root, "src/index.ts"), "utf8")).toContain('  scheduled: worker.scheduled,\n  engineCron: "* * * * *",');
});

it("init keeps Durable Objects in exports when the Worker binds a Durable Object of another Worker, or a class of exports", () => {
  const object = { type: "durable-object", storage: "sqlite" };
  const bindings = [
    { name: "LOCK", class_name: "Lock", script_name: "orders" },
    { name: "KEEPER", class_name: "Keeper" },
  ];
  const exports = { Recorder: object, Keeper: object, Runs: { type: "workflow", name: "shop-runs" } };
  const changes = changesOf({ name: "shop", exports, durable_objects: { bindings } }, { name: "shop", env: undefined, secrets: [] });
  expect(changes.filter(({ path: [section = ""] }) => ["migrations", "exports"].includes(section))).toEqual([]);
  expect(changes.map(({ path }) => path.join("."))).not.toContain("durable_objects.bindings");
});

it("init adds the engine's Durable Object classes in a new migration when the Worker has Durable Object migrations", () => {
  const { config } = initialized(3);
  expect(Object.keys(config.exports ?? {})).toEqual(["Runs"]);
  expect(config.durable_objects?.bindings?.map(({ class_name }) => class_name)).toEqual(["Room", "Recorder", "Keeper"]);
  expect(config.migrations?.map(({ new_sqlite_classes }) => new_sqlite_classes)).toEqual([["Room"], ["Recorder", "Keeper"]]);
});

it("init copies the console's files into a site's assets, and routes the engine's paths to the Worker", () => {
  const { root, config } = initialized(5);
  expect(config.assets).toMatchObject({
    directory: "dist/client",
    run_worker_first: expect.arrayContaining(["/v1/*", "!/console/assets/*"]),
  });
  expect(existsSync(join(root, "public/console/assets"))).toBe(true);
});

it("init --env adds the bindings of an environment, and doctor finds no mistake in it", () => {
  const { root, out } = initialized(6);
  expect(out).toContain("npx millrace init --env staging");
  const staged = run(root, "millrace", "init", "--yes", "--env", "staging");
  expect(staged, staged.out).toMatchObject({ code: 0, err: "" });
  const { d1_databases, queues, r2_buckets, exports, vars, secrets } = (configured(root).env?.staging ?? {}) as Config;
  expect(d1_databases?.length).toBe(1);
  expect(r2_buckets).toEqual([{ binding: "PAYLOADS", bucket_name: "shop-staging-payloads" }]);
  expect(queues?.producers?.[0]).toEqual({ binding: "MILLRACE_QUEUE", queue: "shop-staging-millrace" });
  expect(exports?.Runs?.name).toBe("shop-staging-runs");
  expect([vars, secrets]).toEqual([{ STAGE: "staging", QUEUE_PREFIX: "shop-staging-" }, { required: ["MILLRACE_KEY"] }]);
  const doctor = run(root, "millrace", "doctor", "--env", "staging");
  expect(doctor.out).toContain("No mistake found.");
  for (const args of [[], ["--env", "staging"]]) {
    const again = run(root, "millrace", "init", "--yes", ...args).out;
    expect(again).toContain("Nothing to change");
    expect(again).not.toContain("--env staging");
  }
});

it("init --env in a Worker without the engine sets up the top level and the environment, and lists the environment overrides that get the engine's bindings", () => {
  const root = userFolder(built.folder, {
    "wrangler.jsonc": `{
  "name": "both", "main": "i.ts", "compatibility_date": "2026-10-01",
  "durable_objects": { "bindings": [{ "name": "ROOM", "class_name": "Room" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Room"] }],
  "env": { "live": {
    "triggers": { "crons": ["0 * * * *"] },
    "durable_objects": { "bindings": [{ "name": "ROOM", "class_name": "Room" }] }
  } }
}
`,
    "i.ts":
      'import { DurableObject } from "cloudflare:workers";\nexport class Room extends DurableObject {}\nexport default { fetch: () => new Response() };\n',
  });
  expect(run(root, "millrace", "init", "--yes", "--env", "live")).toMatchObject({ code: 0, err: "" });
  const { triggers, durable_objects: objects, exports } = configured(root).env?.live ?? ({} as Config);
  expect(triggers?.crons).toEqual(["0 * * * *", "* * * * *"]);
  expect(objects?.bindings?.map(({ name }) => name)).toEqual(["ROOM", "RECORDER", "KEEPER"]);
  expect(exports).toEqual({ Runs: { type: "workflow", name: "both-live-runs" } });
  expect(run(root, "millrace", "doctor", "--env", "live").out).toContain("No mistake found.");
});

it("init keeps handlers of the Worker that the engine does not have", () => {
  const root = userFolder(built.folder, SHAPES.find(({ title }) => title.startsWith("handlers that"))?.files ?? {});
  run(root, "millrace", "init", "--yes");
  const source = readFileSync(join(root, "src/index.ts"), "utf8");
  expect(source).toContain("export default { ...own, ...engine };");
  expect(source).toContain("export const { handler: engine, catalog: engineCatalog, Runs, Recorder, Keeper } = millrace({");
});

it("init keeps the line endings, the byte order mark and the comments of a wrangler.toml", () => {
  const files = SHAPES.find(({ title }) => title.startsWith("a handler with a declared"))?.files ?? {};
  const root = userFolder(built.folder, files);
  run(root, "millrace", "init", "--yes");
  const text = readFileSync(join(root, "wrangler.toml"), "utf8");
  expect(text).toMatch(/^\ufeffname = "typed"\r\n/);
  expect(text).toContain('compatibility_date = "2026-10-01"   # keep\r\n');
  expect(text).toContain('\r\nvars = { A = "1", QUEUE_PREFIX = "typed-" } # one\r\n');
  expect(text.replaceAll("\r\n", "")).not.toContain("\n");
  expect(readFileSync(join(root, "src/index.ts"), "utf8").replaceAll("\r\n", "")).not.toContain("\n");
});

const HELLO = {
  "wrangler.jsonc": '{ "name": "hello", "main": "i.ts", "compatibility_date": "2026-10-01" }\n',
  "i.ts": "export default { fetch: () => new Response() };\n",
};

it("init leaves every file unchanged when one file cannot be written", () => {
  const root = userFolder(built.folder, HELLO);
  chmodSync(join(root, "i.ts"), 0o444);
  const { code, err } = run(root, "millrace", "init", "--yes");
  expect([code, err]).toEqual([1, expect.stringContaining("i.ts is read-only. No file is changed.")]);
  expect(readFileSync(join(root, "wrangler.jsonc"), "utf8")).toBe(HELLO["wrangler.jsonc"]);
  expect(readdirSync(root).toSorted()).toEqual(["i.ts", "node_modules", "wrangler.jsonc"]);
});

it("init restores the first file when the second file cannot be written", () => {
  const root = userFolder(built.folder, { ...HELLO, "worker.ts": "own\n" });
  const one = { file: join(root, "wrangler.jsonc"), before: HELLO["wrangler.jsonc"], after: "{}" };
  const files = [
    one,
    { file: join(root, "new.ts"), before: "", after: "new" },
    { file: join(root, "worker.ts"), before: "own\n", after: "x" },
  ];
  // A folder at the path of a file cannot be replaced by a rename.
  const between = () => {
    rmSync(join(root, "worker.ts"));
    mkdirSync(join(root, "worker.ts/folder"), { recursive: true });
  };
  expect(() => writeAll(files, between)).toThrow("No file is changed");
  expect(readFileSync(one.file, "utf8")).toBe(one.before);
  expect(readdirSync(root).toSorted()).toEqual(["i.ts", "node_modules", "worker.ts", "wrangler.jsonc"]);
});

it("init writes secrets with the mode 0600, keeps the variables of .env, and lists the names of .dev.vars as required secrets", () => {
  const root = userFolder(built.folder, { ...HELLO, ".env": 'API_TOKEN=one\nPEM="a\nb=="\n', ".gitignore": ".dev.vars\n!.dev.vars\n" });
  const first = run(root, "millrace", "init", "--yes");
  expect(first.out).toContain("The variables of .env are copied into .dev.vars");
  expect(first.out).toContain(".gitignore has the line !.dev.vars");
  expect(first.out).toContain("+API_TOKEN=…\n+MILLRACE_KEY=…\n+PEM=…\n");
  expect(first.out).not.toContain("b=");
  expect(readFileSync(join(root, ".dev.vars"), "utf8")).toMatch(/^API_TOKEN=one\nPEM="a\nb=="\nMILLRACE_KEY=\S+\n$/);
  expect(readFileSync(join(root, ".gitignore"), "utf8")).toMatch(/!\.dev\.vars\n\.dev\.vars\n/);
  expect(configured(root).secrets).toEqual({ required: ["MILLRACE_KEY", "API_TOKEN", "PEM"] });
  expect(first.out).toContain("because wrangler loads no others: API_TOKEN, PEM.");
  chmodSync(join(root, ".dev.vars"), 0o644);
  expect(run(root, "millrace", "init", "--yes").out).toContain("Its mode becomes 0600");
  expect(statSync(join(root, ".dev.vars")).mode & 0o777).toBe(0o600);
  expect(run(root, "millrace", "init", "--yes").out).toContain("Nothing to change");
});

it("init does not change a configuration section that occurs twice, prints the lines to add, and changes nothing the second time", () => {
  const root = userFolder(built.folder, {
    ...HELLO,
    "wrangler.jsonc":
      '{\n  "name": "hello",\n  "main": "i.ts",\n  "compatibility_date": "2026-10-01",\n  "vars": { "A": "1" },\n  "vars": { "B": "2" }\n}\n',
  });
  const first = run(root, "millrace", "init", "--yes");
  expect([first.code, first.out]).toEqual([1, expect.stringContaining('Set vars.QUEUE_PREFIX:\n\n"QUEUE_PREFIX": "hello-",')]);
  const after = readFileSync(join(root, "wrangler.jsonc"), "utf8");
  expect(run(root, "millrace", "init", "--yes")).toMatchObject({ code: 1, out: expect.stringContaining("Not complete: paste the lines") });
  expect(readFileSync(join(root, "wrangler.jsonc"), "utf8")).toBe(after);
});

it("init writes a wrangler.json as JSON, and reports a configuration section that is null", () => {
  const { "wrangler.jsonc": text, ...files } = HELLO;
  const root = userFolder(built.folder, { ...files, "wrangler.json": text });
  expect(run(root, "millrace", "init", "--yes").code).toBe(0);
  expect(JSON.parse(readFileSync(join(root, "wrangler.json"), "utf8"))).toMatchObject({ name: "hello", limits: { cpu_ms: 300_000 } });
  const other = userFolder(built.folder, { ...files, "wrangler.jsonc": text.replace("{", '{ "queues": null,') });
  expect(run(other, "millrace", "init", "--yes").err).toContain('wrangler.jsonc: "queues" is null. Remove it');
});

it("init reports that --database selects one of two databases, and reports the line of an old compatibility date", () => {
  const databases = '"d1_databases": [{ "binding": "A", "database_name": "one" }, { "binding": "B", "database_name": "two" }]';
  const root = userFolder(built.folder, {
    ...HELLO,
    "wrangler.jsonc": HELLO["wrangler.jsonc"].replace("2026-10-01", "2026-01-01").replace(" }", `, ${databases} }`),
  });
  const { out } = run(root, "millrace", "init", "--dry-run");
  expect(out).toContain("npx millrace init --database A");
  expect(out).toContain('"compatibility_date": "2026-10-01",');
  expect(run(root, "millrace", "init", "--yes", "--database", "B").code).toBe(0);
  expect(configured(root).d1_databases?.[2]).toEqual({ binding: "DB", database_name: "two" });
});

it("init reports the line of a syntax error in a configuration, and changes nothing", () => {
  const root = userFolder(built.folder, { "wrangler.jsonc": '{\n  "name": "x"\n  "main": "a.ts"\n}\n' });
  const { code, err } = run(root, "millrace", "init", "--yes");
  expect([code, err]).toEqual([1, expect.stringContaining("wrangler.jsonc:3 is not JSON")]);
});

it("init in an empty folder creates a Worker that compiles and bundles, and init NAME creates one in a new folder", () => {
  const root = userFolder(built.folder, {});
  expect(run(root, "millrace", "init", "my-worker", "--dry-run")).toMatchObject({ code: 0, err: "" });
  expect(existsSync(join(root, "my-worker"))).toBe(false);
  expect(run(root, "millrace", "init", "--yes")).toMatchObject({ code: 0, err: "" });
  expect(configured(root)).toMatchObject({ minify: true, keep_names: false });
  expect(run(root, "tsc", "-p", root).out).toBe("");
  const bundled = run(root, "wrangler", "deploy", "--dry-run", "--outdir", join(root, ".wrangler/out"));
  expect(bundled.code, bundled.err + bundled.out).toBe(0);
  expect(run(root, "millrace", "init", "--yes").out).toContain("Nothing to change");
  const nested = run(root, "millrace", "init", "my-worker", "--yes");
  expect(nested).toMatchObject({ code: 0, err: "" });
  expect(nested.out).toContain("wrangler.jsonc above it has another Worker, which is not changed");
  expect(readFileSync(join(root, "my-worker/wrangler.jsonc"), "utf8")).toContain('"name": "my-worker"');
  const modes = ["src", "src/worker.ts", ".dev.vars"].map((name) => statSync(join(root, "my-worker", name)).mode & 0o777);
  expect(modes).toEqual([0o755, 0o644, 0o600]);
});

it("init . creates a Worker in a folder that has only the package, and init NAME depends on the package by a relative path", () => {
  const manifest = { dependencies: { millrace: "file:millrace-0.1.0.tgz", hono: "^4.13.0", zod: "^4.6.0" } };
  const root = userFolder(built.folder, { "package.json": JSON.stringify(manifest), "package-lock.json": "{}", "millrace-0.1.0.tgz": "" });
  const other = run(root, "millrace", "init", "greeter", "--yes");
  expect([other.code, other.out]).toEqual([0, expect.stringContaining("Next: cd greeter && npm install && npx millrace dev")]);
  const written = (name: string) => JSON.parse(readFileSync(join(root, name), "utf8"));
  expect(written("greeter/package.json").dependencies.millrace).toBe("file:../millrace-0.1.0.tgz");
  for (const [manager, lock] of Object.entries({ pnpm: "pnpm-lock.yaml", yarn: "yarn.lock" })) {
    mkdirSync(join(root, "greeter", manager));
    writeFileSync(join(root, "greeter", manager, lock), "");
    expect(run(root, "millrace", "init", `greeter/${manager}`, "--yes").out).toContain(`cd greeter/${manager} && ${manager} install && `);
  }
  rmSync(join(root, "greeter"), { recursive: true });
  const here = run(root, "millrace", "init", ".", "--yes");
  expect(here, here.err).toMatchObject({ code: 0 });
  expect(written("package.json")).toMatchObject({ ...manifest, type: "module", scripts: { dev: "millrace dev" } });
  expect(here.out).toContain("Next: npx millrace dev");
  expect(run(root, "tsc", "-p", root).out).toBe("");
});

it("init without wrangler reports the package to install, and changes nothing", () => {
  const root = userFolder(built.folder, { "package.json": "{}", ...SHAPES[1]?.files });
  rmSync(join(root, "node_modules/wrangler"));
  const before = readFileSync(join(root, "src/index.ts"), "utf8");
  const { code, out, err } = run(root, "millrace", "init", "--yes");
  expect([code, out, err]).toEqual([1, "", expect.stringContaining("Install it there: npm install -D wrangler")]);
  expect(readFileSync(join(root, "src/index.ts"), "utf8")).toBe(before);
});

it("the files and the types of docs/own-worker.md pass the type check that init writes", () => {
  const root = userFolder(built.folder, {});
  for (const name of ["vitest", "@cloudflare/vitest-pool-workers"]) {
    mkdirSync(dirname(join(root, "node_modules", name)), { recursive: true });
    symlinkSync(resolve(import.meta.dirname, "../../../node_modules", name), join(root, "node_modules", name), "dir");
  }
  expect(run(root, "millrace", "init", "my-worker", "--yes").code).toBe(0);
  const folder = join(root, "my-worker");
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "dir");
  const page = readFileSync(resolve(import.meta.dirname, "../../../docs/own-worker.md"), "utf8");
  expect(page).toMatch(/^npm run check$/m);
  for (const move of movesOf(page)) if (move.do !== "run") apply(move, folder);
  writeFileSync(join(folder, "src/env.ts"), "export const database = (env: Env): D1Database => env.DB;\n");
  expect(readFileSync(join(folder, "package.json"), "utf8")).toContain('"check": "wrangler types --include-runtime false && tsc --noEmit"');
  expect(run(folder, "wrangler", "types", "--include-runtime", "false").code).toBe(0);
  expect(run(folder, "tsc", "--noEmit")).toEqual({ code: 0, out: "", err: "" });
}, 60_000);

it("init and dev with an old wrangler report a compatible version before they do anything else", () => {
  const root = userFolder(built.folder, { "package.json": "{}", ...SHAPES[1]?.files });
  rmSync(join(root, "node_modules/wrangler"));
  mkdirSync(join(root, "node_modules/wrangler"));
  writeFileSync(join(root, "node_modules/wrangler/package.json"), JSON.stringify({ name: "wrangler", version: "4.86.0" }));
  for (const args of [["init", "--yes"], ["dev"]]) {
    const { code, out, err } = run(root, "millrace", ...args);
    const says = "wrangler 4.86.0 is too old: Millrace needs 4.156.0 or newer. Install it: npm install -D wrangler@4.164.0";
    expect([code, out, err], args[0]).toEqual([1, "", expect.stringContaining(says)]);
  }
  expect(existsSync(join(root, ".millrace"))).toBe(false);
});

it("init without a terminal prints the command with its folder, and a new .gitignore ignores the packages", () => {
  const root = userFolder(built.folder, { "package.json": "{}", ...SHAPES[1]?.files });
  const shown = run(root, "millrace", "init", "../new one/my-worker");
  expect([shown.code, shown.out]).toEqual([2, expect.stringContaining("npx millrace init '../new one/my-worker' --yes\n")]);
  rmSync(join(root, ".gitignore"), { force: true });
  expect(run(root, "millrace", "init", "--yes").code).toBe(0);
  expect(readFileSync(join(root, ".gitignore"), "utf8")).toBe("node_modules\n.dev.vars\n.millrace\n.wrangler\n");
});

it("init reports a list or a table that TOML cannot extend with its value, and writes the rest", () => {
  const root = userFolder(built.folder, {
    "wrangler.toml": 'name = "x"\nmain = "i.ts"\nqueues = { producers = [] }\ncompatibility_date = "2026-10-01"\n',
    "i.ts": "export default { fetch: () => new Response() };\n",
  });
  const { code, out } = run(root, "millrace", "init", "--yes");
  expect(code).toBe(1);
  expect(out).toContain('Add to queues.producers:\n\n[[queues.producers]]\nbinding = "MILLRACE_QUEUE"\nqueue = "x-millrace"');
  expect(configured(root)).toMatchObject({ limits: { cpu_ms: 300_000 }, queues: { producers: [] }, d1_databases: [{ binding: "DB" }] });
});
