import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { builtPackage, run, userFolder } from "./installed.ts";

let built: ReturnType<typeof builtPackage>;
beforeAll(() => {
  built = builtPackage();
}, 120_000);
afterAll(() => built.remove());

const WITHIN = { timeout: 60_000, interval: 200 };

/** `npx millrace dev` in a folder, and its output. */
function dev(root: string, port: number, ...more: string[]) {
  const child = spawn(process.execPath, [join(root, "node_modules/millrace/millrace.js"), "dev", "--port", String(port), ...more], {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1" },
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const end = async () => {
    if (child.exitCode === null) {
      child.kill("SIGINT");
      await once(child, "exit");
    }
    return child.exitCode;
  };
  onTestFinished(async () => void (await end()));
  return { says: (what: string) => vi.waitFor(() => expect(said).toContain(what), WITHIN), said: () => said, end };
}

it("in an empty folder with the package, these succeed: init, dev, the printed command, a saved change, Ctrl-C, and a start with the same state", async () => {
  const root = userFolder(built.folder, {});
  const times: [string, number][] = [];
  const began = Date.now();
  expect(run(root, "millrace", "init", "--yes").code).toBe(0);
  times.push(["init", Date.now() - began]);
  const port = await freePort();
  const first = dev(root, port);
  await first.says("Stop   ");
  expect(first.said()).toMatch(/Tenant of the token +acme; another: npx millrace dev --tenant NAME/);
  times.push(["dev runs", Date.now() - began]);
  const curl = /^ {2}(curl \S+\/v1\/commands[\s\S]*?')$/m.exec(first.said())?.[1] ?? "";
  const answer = JSON.parse(execFileSync("sh", ["-c", `${curl} -s`], { cwd: root, encoding: "utf8" }));
  expect(answer).toMatchObject({ correlation_id: "my-first-job", replayed: false });
  const list = () => run(root, "millrace", "instances", "list", "--correlation", "my-first-job").out;
  await vi.waitFor(() => expect(list()).toMatch(/complete {2}greet/), WITHIN);
  times.push(["a command is complete", Date.now() - began]);

  const [link = ""] = /http:\S+\/console#code=\S+/.exec(first.said()) ?? [];
  const page = await (await fetch(link)).text();
  const [script = ""] = /\/console\/assets\/\w+\.js/.exec(page) ?? [];
  expect((await fetch(`http://localhost:${port}${script}`)).headers.get("content-type")).toContain("javascript");

  const worker = join(root, "src/worker.ts");
  const text = readFileSync(worker, "utf8");
  appendFileSync(worker, "x(");
  await first.says("src/worker.ts:18 does not compile");
  writeFileSync(worker, text);
  await first.says("Fixed.");

  const config = join(root, "wrangler.jsonc");
  const good = readFileSync(config, "utf8");
  const isWell = async () => (await fetch(`http://localhost:${port}/healthz`)).ok;
  for (const [binding, other] of [
    ["PAYLOADS", "FILES"],
    ["DB", "DATA"],
  ] as const) {
    const before = first.said().length;
    writeFileSync(config, good.replace(`"binding": "${binding}"`, `"binding": "${other}"`));
    await first.says(`as ${binding}. Add to`);
    expect(await isWell()).toBe(true);
    writeFileSync(config, good);
    await vi.waitFor(() => expect(first.said().slice(before)).toContain("Fixed."), WITHIN);
    expect(await isWell()).toBe(true);
    expect(first.said().slice(before).match(/✗/g)).toHaveLength(1);
  }
  appendFileSync(join(root, ".dev.vars"), "BANK_URL=http://bank\n");
  await first.says(".dev.vars has BANK_URL, which");
  await first.says("The engine runs again");
  expect(await first.end()).toBe(0);

  const second = dev(root, port, "--tenant", "shop");
  await second.says("Stop   ");
  expect(second.said()).toContain("with the state of the last run");
  expect(second.said()).toMatch(/Tenant of the token +shop;/);
  expect(list()).not.toContain("greet");
  expect(await second.end()).toBe(0);

  const third = dev(root, port, "--tenant", "acme");
  await third.says("Stop   ");
  expect(list()).toMatch(/complete {2}greet/);
  expect(await third.end()).toBe(0);
  console.info(times.map(([what, ms]) => `${(ms / 1000).toFixed(1).padStart(6)} s  ${what}`).join("\n"));
});

it("a Worker with a wrangler.toml, its own queue and worker.ts in the root runs, and serves its own requests", async () => {
  const root = userFolder(built.folder, {
    "wrangler.toml": 'name = "jobs"\nmain = "worker.ts"\ncompatibility_date = "2026-10-01"\n',
    "worker.ts": 'export default { fetch: () => new Response("my own") };\n',
    "migrations/0001_jobs.sql": "CREATE TABLE jobs (id TEXT PRIMARY KEY);\n",
    "worker.test.ts": 'import { nothing } from "cloudflare:test"; defineWorkflow(nothing);\n',
  });
  expect(run(root, "millrace", "init", "--yes").code).toBe(0);
  const port = await freePort();
  const engine = dev(root, port);
  await engine.says("Stop   ");
  expect(await (await fetch(`http://localhost:${port}/`)).text()).toBe("my own");
  expect(await (await fetch(`http://localhost:${port}/healthz`)).json()).toMatchObject({ ok: true });
  expect(engine.said()).toMatch(/No command yet\n.*save, then send its command/);
  expect(engine.said()).not.toContain("✗");
  expect(await engine.end()).toBe(0);
  expect(existsSync(join(root, ".millrace/state"))).toBe(true);
});
