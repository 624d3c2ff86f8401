import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { lockFolder, runningIn } from "../../packages/millrace/cli/local/folder-lock.ts";
import { groupOf, startOf } from "../../packages/millrace/cli/local/processes.ts";
import { emptyFolder } from "./folder.ts";

it("a second start on the same folder reports the process that runs on it", async () => {
  const folder = emptyFolder();
  const lock = await lockFolder(folder, "http://localhost:8787");
  await expect(lockFolder(folder, "http://localhost:9000")).rejects.toThrow(
    `already runs on ${folder} (process ${process.pid}, http://localhost:8787). Stop it there with Ctrl-C first.`,
  );
  lock.release();
  expect(existsSync(join(folder, "lock"))).toBe(false);
});

it("the engine that runs in a folder or its subfolder is found; without an engine, the error contains the command to start one", async () => {
  const folder = emptyFolder();
  expect(() => runningIn(folder)).toThrow("No engine runs here. Start one with npx millrace dev");
  const demo = join(folder, "demo-console");
  mkdirSync(demo);
  const lock = await lockFolder(demo, "http://localhost:9000");
  expect(runningIn(folder)).toEqual([{ folder: demo, url: "http://localhost:9000" }]);
  lock.release();
  expect(() => runningIn(folder)).toThrow("No engine runs here. Start one with npx millrace dev");
});

it("a folder lock of a dead process is replaced, even if another program now has its process id", async () => {
  const folder = emptyFolder();
  writeFileSync(join(folder, "lock"), JSON.stringify({ pid: process.pid, started: "long ago", url: "http://localhost:8787" }));
  await lockFolder(folder, "http://localhost:9000");
  expect(readFileSync(join(folder, "lock"), "utf8")).toContain("http://localhost:9000");
});

it("a folder lock of an ended process is replaced, although no parent process has read its exit status", async () => {
  const folder = emptyFolder();
  // The shell becomes another program that does not collect its child process.
  const parent = spawn("sh", ["-c", "sleep 1 & echo $!; exec sleep 60"], { stdio: ["ignore", "pipe", "ignore"] });
  onTestFinished(() => void parent.kill("SIGKILL"));
  const [said] = await once(parent.stdout, "data");
  const pid = Number(said);
  const started = startOf(pid);
  expect(started).toBeDefined();
  writeFileSync(join(folder, "lock"), JSON.stringify({ pid, started, url: "http://localhost:8787" }));
  await expect(lockFolder(folder, "http://localhost:9000")).rejects.toThrow(`process ${pid}`);
  await vi.waitUntil(() => startOf(pid) === undefined, { timeout: 20_000 });
  process.kill(pid, 0);
  await lockFolder(folder, "http://localhost:9000");
  expect(readFileSync(join(folder, "lock"), "utf8")).toContain("http://localhost:9000");
});

/** A separate process group, with its purpose in its command line. */
async function sleeper(name: string, first = ""): Promise<number> {
  const child = spawn(process.execPath, ["-e", `${first} console.log(1); setInterval(() => {}, 1000)`, name], {
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
])("a start ends a dead engine's process with the name workerd, and no other process: %s (%i left) %s", async (name, left) => {
  const folder = emptyFolder();
  const engine = await sleeper(name);
  const holder = { pid: process.pid, started: "long ago", url: "http://localhost:8787", engine, engineStarted: startOf(engine) };
  writeFileSync(join(folder, "lock"), JSON.stringify(holder));
  await lockFolder(folder, "http://localhost:9000");
  expect(groupOf(engine)).toHaveLength(left);
});

/** A separate start: locks the folder, prints the result, and runs until it is ended. */
function starter(folder: string, url: string) {
  const child = spawn(
    process.execPath,
    [
      "--input-type=module",
      "-e",
      `import { lockFolder, runningIn } from ${JSON.stringify(join(import.meta.dirname, "../../packages/millrace/cli/local/folder-lock.ts"))};
       const said = await lockFolder(${JSON.stringify(folder)}, "${url}").then(() => "took it", (error) => error.message);
       console.log(said);
       setInterval(() => {}, 1000);`,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  return { child, pid: child.pid ?? 0, said: once(child.stdout, "data").then(([data]) => String(data).trim()) };
}

it("two concurrent starts that find a dead process's lock both end its processes, and one of them locks the folder", async () => {
  const folder = emptyFolder();
  const slow = "process.on('SIGTERM', () => setTimeout(() => process.exit(), 4000));";
  const engine = await sleeper("workerd", slow);
  const holder = { pid: process.pid, started: "long ago", url: "http://localhost:8787", engine, engineStarted: startOf(engine) };
  writeFileSync(join(folder, "lock"), JSON.stringify(holder));
  const starts = [starter(folder, "http://localhost:9000"), starter(folder, "http://localhost:9001")];
  const said = await Promise.all(starts.map((one) => one.said));
  expect(said.filter((one) => one === "took it")).toHaveLength(1);
  expect(said.find((one) => one !== "took it")).toMatch(/^(Another start is locking|Millrace already runs on)/);
  const kept = JSON.parse(readFileSync(join(folder, "lock"), "utf8"));
  expect(kept.pid).toBe(starts[said.indexOf("took it")]?.pid);
  expect(groupOf(engine)).toEqual([]);
});

it("a start that died while it locked a folder does not hold the lock", async () => {
  const folder = emptyFolder();
  const asked = join(folder, "asked-to-end");
  const engine = await sleeper("workerd", `process.on("SIGTERM", () => require("node:fs").writeFileSync(${JSON.stringify(asked)}, ""));`);
  const holder = { pid: process.pid, started: "long ago", url: "http://localhost:8787", engine, engineStarted: startOf(engine) };
  writeFileSync(join(folder, "lock"), JSON.stringify(holder));
  const first = starter(folder, "http://localhost:9000");
  await expect.poll(() => existsSync(asked), { timeout: 30_000 }).toBe(true);
  await expect(lockFolder(folder, "http://localhost:9001")).rejects.toThrow("Another start is locking");
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  await lockFolder(folder, "http://localhost:9002");
  expect(groupOf(engine)).toEqual([]);
});

it("a folder that cannot be locked is not reported as locked by another process", async () => {
  const folder = emptyFolder();
  writeFileSync(join(folder, "lock.turn"), "no database ".repeat(100));
  await expect(lockFolder(folder, "http://localhost:9000")).rejects.toThrow(
    `${join(folder, "lock.turn")} cannot be locked: file is not a database. It is a leftover: delete it, and start again.`,
  );
  rmSync(join(folder, "lock.turn"));
  await lockFolder(folder, "http://localhost:9000");
});

it("a folder lock that another process has acquired since is neither overwritten nor removed", async () => {
  const folder = emptyFolder();
  const file = join(folder, "lock");
  const first = await lockFolder(folder, "http://localhost:8787");
  rmSync(file);
  await lockFolder(folder, "http://localhost:9000");
  const second = readFileSync(file, "utf8");
  first.holds(process.pid);
  first.release();
  expect(readFileSync(file, "utf8")).toBe(second);
});
