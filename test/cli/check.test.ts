import { execFile } from "node:child_process";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { caller, shop } from "../console/stage.ts";
import { until } from "../until.ts";
import { emptyFolder } from "./folder.ts";

const SHOP = join(ROOT, "test/console/shop");

/** A folder with the sources of the shop, in which each text is replaced. */
function shopWith(changes: Readonly<Record<string, string>>): string {
  const folder = emptyFolder();
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  cpSync(join(SHOP, "wrangler.jsonc"), join(folder, "wrangler.jsonc"));
  let text = readFileSync(join(SHOP, "worker.ts"), "utf8");
  for (const [was, now] of Object.entries(changes)) {
    expect(text).toContain(was);
    text = text.replaceAll(was, now);
  }
  writeFileSync(join(folder, "worker.ts"), text);
  return folder;
}

/** Calls of the clock and of chance: between the steps, and at each place that a replay does not repeat. */
const CALLS = {
  'import * as z from "zod";': `import { randomBytes } from "node:crypto";
    import * as z from "zod";
    const now = Date.now;
    const loaded = [now(), Math.random(), crypto.randomUUID(), randomBytes(1)];`,
  "slow }, step }) {": `slow }, step }) {
    new Date(now());
    if (!(new Date() instanceof Date) || new Date(5).constructor !== Date || loaded.length !== 4) throw new Error("no date");
    await step.map([Math.random()], { key: () => "one" }, async () => performance.now());`,
  "{ refused, slow });": `{ refused, slow });
    crypto.getRandomValues(new Uint8Array([crypto.randomUUID().length]));
    void step.map([randomBytes(1)], { key: () => "one" }, async (_, each) => {
      await each.read("clock", async () => [Date.now(), Math.random()]);
      performance.now();
    });
    void fetch(\`https://shop.example/\${Date.now()}\`);`,
};

it("check replays the open instances of a deployment with the code of the folder, and exits with 1 if one would break", async () => {
  const place = await shop();
  const { ask, token, url } = await caller(place);
  const payload = { order: "o-1", change: 1, lost: true };
  const { instance_id: id } = await ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
  const shown = () => ask<{ status: string; version: number }>("GET", `/v1/instances/${id}`);
  expect(await until(shown, ({ status }) => status === "in_doubt")).toMatchObject({ version: 1 });

  const check = (folder: string, ...more: string[]) =>
    new Promise<{ code: number | null; out: string }>((resolve) => {
      const env = { ...process.env, MILLRACE_TOKEN: token, NO_COLOR: "1" };
      const args = [join(ROOT, "packages/millrace/cli/launch.js"), "check", "--against", url, ...more];
      const child = execFile(process.execPath, args, { cwd: folder, env }, (_, out, err) =>
        resolve({ code: child.exitCode, out: `${out}${err}` }),
      );
    });

  const first = ["Date.now()", "new Date()", "Math.random()", "performance.now()"];
  const later = ["crypto.randomUUID()", "crypto.getRandomValues()", "crypto.randomBytes()", "Date.now()", "fetch()"];
  const called = [
    ...first.map((call) => `${call} outside a step, before its first step`),
    ...later.map((call) => `${call} outside a step, after “tell the warehouse”`),
  ].map((call) => `! change-order calls ${call}. Each replay gets another value. Call it in step.read(…).\n`);
  expect(await check(shopWith(CALLS))).toEqual({ code: 0, out: `${called.join("")}1 open instance checked: none would break.\n` });

  expect(await check(shopWith({}))).toEqual({ code: 0, out: "1 open instance checked: none would break.\n" });
  const renamed = await check(shopWith({ '"tell the warehouse"': '"tell the depot"' }));
  expect(renamed).toEqual({
    code: 1,
    out: expect.stringContaining(`✗ change-order ${id} (version 1) “tell the warehouse”: The run has recorded this natural step`),
  });
  const keyed = shopWith({ 'effect: "once"': 'effect: "keyed"' });
  const { code, out } = await check(keyed, "--json", "--workflow", "change-order", "--limit", "5");
  expect([code, JSON.parse(out)]).toMatchObject([
    1,
    {
      checked: 1,
      broken: 1,
      calls_between_steps: [],
      instances: [{ id, workflow: "change-order", version: 1, findings: [{ code: "class_changed", step: "write to the customer" }] }],
    },
  ]);
  const endless = await check(shopWith({ "slow }, step }) {": "slow }, step }) {\n for (;;) if (slow === -1) break;" }));
  expect(endless).toEqual({ code: 1, out: expect.stringContaining("the code of change-order calls no step and does not return") });
  expect((await check(shopWith({}), "--against", "nowhere")).out).toContain("--against must be an address");
  const looksAround = shopWith({
    "slow }, step }) {": `slow }, step, env }) {
      const seen = [(env as { MODE?: string }).MODE, process.env.MODE, process.env.MILLRACE_TOKEN, process.env.HOME];
      if (seen.join() !== "quiet,quiet,,") throw new Error(seen.join());
      const { writeFile } = await import("node:fs/promises");
      await writeFile("written", "").then(() => { throw new Error("The file was written."); }, () => undefined);`,
  });
  const config = join(looksAround, "wrangler.jsonc");
  writeFileSync(config, readFileSync(config, "utf8").replace("{", '{ "vars": { "MODE": "quiet" },'));
  expect(await check(looksAround)).toEqual({ code: 0, out: "1 open instance checked: none would break.\n" });
  await ask("POST", "/v1/commands", { type: "order.change", payload: { ...payload, change: 2 } });
  expect(await check(shopWith({}), "--limit", "1")).toEqual({
    code: 0,
    out: "1 open instance checked: none would break. More instances are open: raise --limit.\n",
  });
  const versioned = shopWith({ "  on: OrderChange,\n  async run(": "  on: OrderChange,\n  version: 2,\n  previous: {},\n  async run(" });
  expect((await check(versioned)).out).toContain("keep its function in `previous`");

  // The token is in a file, as for the commands that operate an engine.
  expect(await check(versioned, "--token", token)).toMatchObject({ code: 2, out: expect.stringContaining("--token is @FILE") });
  writeFileSync(join(versioned, "token"), `${token}\n`);
  expect((await check(versioned, "--token", "@token")).out).toContain("keep its function in `previous`");
}, 180_000);
