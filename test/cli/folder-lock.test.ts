import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { lockFolder } from "../../src/cli/local/folder-lock.ts";
import { groupOf, startOf } from "../../src/cli/local/processes.ts";
import { emptyFolder } from "./folder.ts";

it("a second start on the same folder is told who holds it", async () => {
  const folder = emptyFolder();
  const lock = await lockFolder(folder, "http://localhost:8787");
  await expect(lockFolder(folder, "http://localhost:9000")).rejects.toThrow(
    `already runs on ${folder} (process ${process.pid}, http://localhost:8787). Stop it there with Ctrl-C first.`,
  );
  lock.release();
  expect(existsSync(join(folder, "lock"))).toBe(false);
});

it("a lock whose holder died is taken over, even if its process id lives on under another program", async () => {
  const folder = emptyFolder();
  writeFileSync(join(folder, "lock"), JSON.stringify({ pid: process.pid, started: "long ago", url: "http://localhost:8787" }));
  await lockFolder(folder, "http://localhost:9000");
  expect(readFileSync(join(folder, "lock"), "utf8")).toContain("http://localhost:9000");
});

/** A process group of its own, whose command line names what it stands for. */
async function sleeper(name: string): Promise<number> {
  const child = spawn(process.execPath, ["-e", "console.log(1); setInterval(() => {}, 1000)", name], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return child.pid ?? 0;
}

it.each([
  ["workerd", 0, "is ended"],
  ["somebody-else", 1, "is left alone"],
])("of a dead start, a group with %s in it leaves %i process: it %s", async (name, left) => {
  const folder = emptyFolder();
  const engine = await sleeper(name);
  const holder = { pid: process.pid, started: "long ago", url: "http://localhost:8787", engine, engineStarted: startOf(engine) };
  writeFileSync(join(folder, "lock"), JSON.stringify(holder));
  await lockFolder(folder, "http://localhost:9000");
  expect(groupOf(engine)).toHaveLength(left);
});
