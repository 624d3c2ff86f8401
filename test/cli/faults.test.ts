import { execFileSync, spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { apiOf } from "../../packages/millrace/cli/api-client.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { clone, Terminal } from "./npm-start.ts";

/** The process that listens on the port, according to wrangler. */
function frontOf(port: number): number {
  const processes = execFileSync("ps", ["-A", "-o", "pid=,args="], { encoding: "utf8" }).split("\n");
  return Number.parseInt(processes.find((one) => /workerd[^ ]* serve/.test(one) && one.includes(`entry=127.0.0.1:${port} `)) ?? "", 10);
}

/** The HTTP status of the response to a sign-in code. */
async function trade(url: string, code: string | undefined): Promise<number> {
  const headers = { "content-type": "application/json" };
  return (await fetch(`${url}/console/sign-in`, { method: "POST", headers, body: JSON.stringify({ code }) })).status;
}

/** A write to this file fails as on a full disk. */
const FULL = "/dev/full";

it("npm start survives a killed process, a full disk and the loss of its folder, and reports its actions", {
  timeout: 360_000,
}, async () => {
  const port = await freePort();
  const folder = clone({ isBuilt: true });
  const at = (name: string) => join(folder, ".millrace", name);
  const terminal = new Terminal(folder, port);
  const known = async () => {
    const token = readFileSync(at("token"), "utf8").trim();
    return { token, instances: (await apiOf(`http://localhost:${port}`, token).instances("kept")).length };
  };
  // The Worker's output before its first response is shown, too.
  await vi.waitUntil(() => existsSync(at("worker.log")) && statSync(at("worker.log")).size > 0, { timeout: 60_000 });
  appendFileSync(at("worker.log"), '\n{"log":"config_invalid","level":"error","error":"Said as it came up."}\n');
  await terminal.says("Stop  ");
  await terminal.says("config_invalid: error Said as it came up.");
  const first = await known();
  await apiOf(`http://localhost:${port}`, first.token).enqueue([
    { type: "research.requested", payload: { brand: "acme", keyword: "tea" }, correlation_id: "kept" },
  ]);

  const killed = Date.now();
  process.kill(frontOf(port), "SIGKILL");
  await terminal.says("The runtime has ended: starting again");
  // Retries in this test do not wait for 30 s.
  expect(Date.now() - killed).toBeLessThan(10_000);
  await terminal.says("The engine runs again");
  expect(await known()).toEqual({ token: first.token, instances: expect.any(Number) });
  expect((await known()).instances).toBeGreaterThan(0);

  if (existsSync(FULL)) {
    symlinkSync(FULL, at("wiring/look/look.js.new"));
    appendFileSync(join(folder, "src/catalog.ts"), "\nObject.assign(globalThis, { saved: true });\n");
    await terminal.says("The disk is full. Free some space, and save again. (ENOSPC");
    await terminal.says("The previous version keeps running");
    expect((await known()).instances).toBeGreaterThan(0);
  }

  // Deleted in one step: the folder is recreated so soon that a removal file by file would delete files of the new one.
  renameSync(join(folder, ".millrace"), join(folder, "gone"));
  await terminal.says(".millrace/state was removed, with all data: starting again, with an empty database");
  const welcome = await terminal.says("Stop  ");
  const anew = await known();
  expect(anew).toEqual({ token: expect.not.stringMatching(first.token), instances: 0 });
  const code = /\/console#code=(mc_\S+)/.exec(welcome)?.[1];
  expect(await trade(`http://localhost:${port}`, code), "the printed link signs in to the new one").toBe(200);
  expect(welcome).not.toContain(anew.token);
  expect(await terminal.end()).toBe(0);
});

const mounts = spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "test", "/mnt"]).status === 0;

it.skipIf(!mounts).each([
  ["full", "dd if=/dev/zero of=.millrace/fill 2>&1", "The disk is full. Free some space, and try again. ("],
  [
    "read-only",
    "mount -o remount,ro .millrace",
    "The disk is read-only. Mount it for writing, or work in a copy of the checkout on another disk, and try again. (EROFS",
  ],
])("a start on a disk that is %s ends with an instruction", async (_, spoil, says) => {
  const folder = clone({ isBuilt: true });
  mkdirSync(join(folder, ".millrace"));
  const start = `mount -t tmpfs -o size=64k test .millrace && { ${spoil}; ${process.execPath} packages/millrace/cli/launch.js dev --port ${await freePort()}; }`;
  const { status, stderr } = spawnSync("unshare", ["-rm", "sh", "-c", start], { cwd: folder, encoding: "utf8", timeout: 60_000 });
  expect(stderr).toContain(says);
  expect(status).toBe(1);
});
