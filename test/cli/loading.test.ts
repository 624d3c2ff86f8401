import { mkdirSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { ROOT, shown } from "../../packages/millrace/cli/local/wrangler.ts";
import { checkout, projectAt } from "../../packages/millrace/cli/project.ts";
import { Changes } from "../../packages/millrace/cli/wiring/changes.ts";
import { readSavedConfig } from "../../packages/millrace/cli/wiring/config.ts";
import { Loader } from "../../packages/millrace/cli/wiring/loader.ts";
import { writeBundle } from "../../packages/millrace/cli/wiring/sources.ts";
import { Wiring } from "../../packages/millrace/cli/wiring/wiring.ts";
import { emptyFolder } from "./folder.ts";

const CATALOG = "export const app = { consumers: [], workflows: [] }, worker = {}, modules = [];";

/** Loads sources that have side effects when they are loaded; `within` in ms. */
function loading(does: string, within?: number[]) {
  const sources = realpathSync(emptyFolder());
  const file = join(sources, "shop.mjs");
  writeFileSync(file, `${CATALOG}\n${does}`);
  return { file, said: new Loader(sources).load(file, within) };
}

it.each([
  ["end the process", "process.exit(3)", "process.exit(3) is called as they are loaded.", 2],
  [
    "reject a promise without a handler",
    'Promise.reject(new TypeError("No shop.")); await new Promise((later) => setTimeout(later, 5000))',
    "the process that loaded them ended: TypeError: No shop.",
    2,
  ],
  [
    "wait forever",
    "await new Promise(() => {})",
    "the process that loaded them ended: an await outside of all functions never ends.",
    undefined,
  ],
  ["are killed", 'process.kill(process.pid, "SIGKILL")', "the process that loaded them ended: it ended with SIGKILL.", undefined],
])("a source error is reported, with its file and line if they are known: sources that %s", async (_, does, error, line) => {
  const { file, said } = loading(does);
  const at = line === undefined ? undefined : `${file}:${line}`;
  expect(await said).toMatchObject({ error, at });
});

it("sources that load too slowly are loaded again, with more time, before an error is reported", async () => {
  const once = `import { existsSync, writeFileSync } from "node:fs";
    if (!existsSync(import.meta.dirname + "/busy")) { writeFileSync(import.meta.dirname + "/busy", ""); for (;;); }`;
  expect(await loading(once, [3000, 10_000, 60_000]).said).toEqual({ known: expect.objectContaining({ workflows: [] }) });
  expect(await loading("for (;;);", [100, 200]).said).toEqual({
    error: "they took longer than 0.1 s, then 0.2 s. They start something that never ends, or the machine is too busy.",
    at: undefined,
  });
});

it.each([
  ["emptied", ""],
  ["half written", '{ "a": [1,'],
])("a configuration that is %s is read again before an error is reported", async (_, first) => {
  const file = join(emptyFolder(), "wrangler.jsonc");
  writeFileSync(file, first);
  void sleep(400).then(() => writeFileSync(file, '{ "a": 1 }'));
  expect(await readSavedConfig(file, 30_000)).toEqual({ a: 1 });
  writeFileSync(file, first);
  await expect(readSavedConfig(file, 200)).rejects.toThrow("is not JSON");
});

it("a configuration with a missing main file is reported", async () => {
  const root = emptyFolder();
  const config = join(root, "wrangler.jsonc");
  writeFileSync(config, '{ "name": "shop", "main": "src/indx.ts" }');
  const wiring = new Wiring({ folder: join(root, ".millrace"), project: projectAt(config), secrets: join(root, ".dev.vars"), set: [] });
  const { mistakes } = await wiring.look();
  expect(mistakes).toEqual([{ says: `"main" in ${shown(config)} names src/indx.ts, which does not exist.`, stops: true }]);
});

it("a source that is emptied and then written counts as one change", async () => {
  const folder = join(emptyFolder(), "src");
  mkdirSync(folder);
  const file = join(folder, "shop.ts");
  writeFileSync(file, "before");
  const changes = new Changes([folder]);
  const stop = new AbortController();
  const first = changes.next(stop.signal);
  writeFileSync(file, "");
  let isWritten = false;
  void sleep(900).then(() => {
    writeFileSync(file, "after, and longer");
    isWritten = true;
  });
  expect(await first).toEqual([file]);
  expect(isWritten).toBe(true);
});

it("a new bundle keeps the files that readers of the previous bundle may still request, and no older files", () => {
  const folder = emptyFolder();
  const bundle = (name: string) => [
    { name: `chunk-${name}.js`, text: name },
    { name: "worker.js", text: `import "./chunk-${name}.js"` },
  ];
  const [first, second, third] = [bundle("A"), bundle("B"), bundle("C")];
  writeBundle(folder, first);
  writeBundle(folder, second, first);
  writeBundle(folder, third, second);
  expect(readdirSync(folder).sort()).toEqual(["chunk-B.js", "chunk-C.js", "worker.js"]);
});

it("a loader process that ended while it waited for sources is started again", async () => {
  const sources = realpathSync(emptyFolder());
  const file = join(sources, "shop.mjs");
  writeFileSync(file, CATALOG);
  const loader = new Loader(sources);
  for (let times = 0; times < 2; times++) {
    // A kill of a terminal's processes includes this one.
    process.kill(loader.pid ?? 0, "SIGKILL");
    await sleep(500);
    expect(await loader.load(file, [60_000])).toEqual({ known: expect.objectContaining({ workflows: [] }) });
  }
});

it("the configuration of this checkout has no reported error", async () => {
  const secrets = join(emptyFolder(), "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const wiring = new Wiring({ folder: join(ROOT, ".millrace/wired"), project: checkout(), secrets, set: ["PUBLIC_URL"] });
  expect((await wiring.look()).mistakes).toEqual([]);
});
