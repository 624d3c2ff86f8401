import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { databasesAtOnce } from "../../packages/millrace/cli/local/together.ts";
import { NAMED, type Told } from "../../packages/millrace/cli/local/told.ts";
import { ROOT, WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { devArgs } from "../../packages/millrace/cli/local/wrangler-dev.ts";

const script = (text: string) =>
  `data:text/javascript,${encodeURIComponent(`import { createRequire, registerHooks } from "node:module";\n${text}`)}`;
const LOADS = `createRequire(${JSON.stringify(WRANGLER)})("miniflare")`;

/** Returns the growth of the package's buffer during loading. */
const SAYS = script(`
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (/miniflare.dist.src.index/.test(url)) console.log(/_GROWTH = (\\d+)/.exec(String(loaded.source))[1]);
      return loaded;
    },
  });
  ${LOADS};`);

/**
 * Two workflows that have an instance with the same id each, two queues that get one message each, and two databases with a table of the
 * same name each.
 */
const WORKER = `
  import { WorkflowEntrypoint } from "cloudflare:workers";
  const heard = [];
  class Says extends WorkflowEntrypoint {
    run({ payload }, step) { return step.do("say", async () => this.constructor.name + " " + payload); }
  }
  export class First extends Says {}
  export class Second extends Says {}
  const end = async (run) => {
    const { status, output } = await run.status();
    return status === "complete" ? output : end(run);
  };
  const kept = async (database, number) => {
    await database.exec("CREATE TABLE kept (number)");
    await database.batch([10, 20].map((more) => database.prepare("INSERT INTO kept VALUES (?)").bind(number + more)));
    return database.prepare("SELECT number FROM kept").raw();
  };
  export default {
    async fetch(request, env) {
      const runs = [await env.FIRST.create({ id: "one", params: "ran" }), await env.SECOND.create({ id: "one", params: "ran too" })];
      await env.LEFT.send("to the left");
      await env.RIGHT.send("to the right");
      const outputs = await Promise.all(runs.map(end));
      while (heard.length < 2) await scheduler.wait(10);
      const rows = await Promise.all([kept(env.NEAR, 1), kept(env.FAR, 2)]);
      const refused = await env.FAR.prepare("SELECT * FROM nowhere").all().catch(({ message }) => message);
      return Response.json([...outputs, ...heard.sort(), rows, refused]);
    },
    queue({ queue, messages }) { heard.push(...messages.map(({ body }) => queue + ": " + body)); },
  };`;

/** Runs the script as `serve.ts` would, and returns its result. */
const RUNS = script(`
  const { Miniflare, convertV4MiniflareOptions } = ${LOADS};
  const runtime = new Miniflare(convertV4MiniflareOptions({
    workers: [{
      name: "two-of-each", modules: true, script: ${JSON.stringify(WORKER)}, compatibilityDate: "2026-10-01",
      workflows: { FIRST: { name: "first", className: "First" }, SECOND: { name: "second", className: "Second" } },
      d1Databases: { NEAR: "near", FAR: "far" },
      queueProducers: { LEFT: { queueName: "left" }, RIGHT: { queueName: "right" } },
      queueConsumers: { left: { maxBatchTimeout: 0 }, right: { maxBatchTimeout: 0 } },
    }],
  }));
  console.log(await (await runtime.dispatchFetch("http://two-of-each")).text());
  await runtime.dispose();`);

/** The output of such a script, after the part that is loaded first. */
function said(what: string, first: string[], env: Record<string, string> = {}): string {
  const args = [...first.flatMap((one) => ["--import", one]), "--input-type=module", "--eval", `import ${JSON.stringify(what)}`];
  return execFileSync(process.execPath, args, { encoding: "utf8", env: { ...process.env, ...env } }).trim();
}

const LIGHTER = join(ROOT, "packages/millrace/cli/local/lighter-start.ts");

it("the configuration of a runtime is written in chunks of four megabytes instead of the default four kilobytes", () => {
  expect([said(SAYS, []), said(SAYS, [LIGHTER])]).toEqual(["4096", "4194304"]);
});

it("a local engine's first process loads the faster start in a folder with URL delimiters in its name", () => {
  const folder = mkdtempSync(join(tmpdir(), "a#b c%20d?e "));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const root = join(folder, "checkout");
  symlinkSync(ROOT, root);
  const run = (...args: string[]) =>
    execFileSync(process.execPath, ["--preserve-symlinks", "--preserve-symlinks-main", ...args], { encoding: "utf8" }).trim();
  const dev = pathToFileURL(join(root, "packages/millrace/cli/local/wrangler-dev.ts")).href;
  const told = `{ folder: "f", port: 1, secrets: "s", vars: {} }`;
  const args = `devArgs(${JSON.stringify(WRANGLER)}, ${told}, { script: "w.js", config: "c.json" })`;
  const given: string[] = JSON.parse(
    run("--input-type=module", "--eval", `import { devArgs } from ${JSON.stringify(dev)}; console.log(JSON.stringify(${args}))`),
  );
  expect(run(...given.slice(0, 2), "--eval", "console.log('up')")).toBe("up");
});

it("all workflows of a Worker share one additional Worker, all queues share another, and databases need none; all work as before", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-lighter-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const told = join(folder, "told.json");
  expect(JSON.parse(said(RUNS, [LIGHTER], { MINIFLARE_WORKERD_CONFIG_DEBUG: told }))).toEqual([
    "First ran",
    "Second ran too",
    "left: to the left",
    "right: to the right",
    [
      [[11], [21]],
      [[12], [22]],
    ],
    expect.stringContaining("no such table: nowhere"),
  ]);
  const services: { name: string; worker?: { bindings?: { wrapped?: { moduleName: string } }[] } }[] = JSON.parse(
    readFileSync(told, "utf8"),
  ).services;
  const beside = services.filter(({ name, worker }) => worker && /workflows:|queues:queue:/.test(name));
  expect(beside).toHaveLength(2);
  // The package's own binding calls a Worker, which calls the object that has the database.
  const bound = services.flatMap(({ worker }) => worker?.bindings ?? []).flatMap(({ wrapped }) => (wrapped ? [wrapped.moduleName] : []));
  expect(new Set(bound.filter((name) => /d1|database/.test(name)))).toEqual(new Set(["millrace:database"]));
});

/** A database with private fields, as in workerd 1.20261117.1. The pinned workerd is older. */
const PRIVATE = `export default ({ fetcher }) => new (class {
  #fetcher = fetcher;
  ask(what) { return this.#fetcher.fetch(what, { method: "POST" }); }
})();`;

it.each([
  ["calls its Durable Object", { fetch: () => "the Worker" }, "the object of left, for left"],
  ["calls the Worker if the reference cannot be changed", Object.freeze({ fetch: () => "the Worker" }), "the Worker"],
])("a database binding with private fields %s", async (_, fetcher, answer) => {
  const asked = { name: "d1", props: { json: JSON.stringify({ [NAMED]: "left" }) } };
  const told: Told = {
    services: [
      { name: "d1", worker: { bindings: [{ name: "OBJECT", durableObjectNamespace: { className: "D1DatabaseObject" } }] } },
      {
        name: "user",
        worker: {
          bindings: [
            { name: "LEFT", wrapped: { moduleName: "cloudflare-internal:d1-api", innerBindings: [{ name: "fetcher", service: asked }] } },
          ],
        },
      },
    ],
  };
  databasesAtOnce(told);
  const scriptOf = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`;
  const code = String(told.extensions?.[0]?.modules[0]?.esModule).replace("cloudflare-internal:d1-api", scriptOf(PRIVATE));
  const { default: binding } = await import(scriptOf(code));
  const object = (id: string) => ({
    fetch: (_: string, { cf }: { cf: { miniflare: { name: string } } }) => `the object of ${id}, for ${cf.miniflare.name}`,
  });
  const objects = { idFromName: (name: string) => name, get: object };
  expect(binding({ fetcher, objects, name: "left" }).ask("/query")).toBe(answer);
});

it.each([
  ["4.164.0", true],
  ["4.165.0", false],
])("the faster start changes only a tested version of wrangler: %s", (version, isLighter) => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-wrangler-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ version }));
  const told = { folder, port: 1, secrets: "s", vars: {} };
  const args = devArgs(join(folder, "bin/wrangler.js"), told, { script: "w.js", config: "c.json" });
  expect(args[0] === "--import").toBe(isLighter);
  expect(args).toContain(join(folder, "bin/wrangler.js"));
});
