import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

function run(args: readonly string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["src/cli/launch.js", ...args], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

it.each([
  [["start", "--help"], "Usage: npm start -- [--port 8787]"],
  [["start", "-h", "--port", "1"], "Usage: npm start -- [--port 8787]"],
  [["demo", "--help"], "Usage: npm run demo -- [name] [--port <number>] [--exit]"],
  [["demo", "crm", "--help"], "npm run demo -- publish"],
  [["--help"], "npm run demo -- --help"],
])("%s starts nothing, and says how it is used", (args, said) => {
  const { status, stdout, stderr } = run(args);
  expect(stderr).toBe("");
  expect(stdout).toContain(said);
  expect(status).toBe(0);
});

it.each([
  [["start", "9155"], 'npm start takes no "9155". For a port of your choice: npm start -- --port 9155'],
  [["start", "--prot", "9155"], 'There is no option "--prot". Usage: npm start'],
  [["start", "--port", "22"], "No browser opens port 22: it belongs to another protocol. Choose another: npm start -- --port 8787"],
  [["demo", "9155"], "“9155” is no demo. For a port of your choice: npm run demo -- --port 9155"],
  [["demo", "crm", "batch"], "One demo at a time: “batch” stands behind “crm”."],
  [["strat"], 'There is no command "strat". Commands: start, demo'],
])("%s starts nothing, and is answered with what would", (args, said) => {
  const { status, stderr } = run(args);
  expect(stderr).toContain(said);
  expect(status).toBe(1);
});

it("a port that npm took for itself, as in `npm start --port 9155`, is not lost in silence", () => {
  const { status, stderr } = run(["start"], { npm_config_port: "9155" });
  expect(stderr).toContain("npm kept --port for itself. Write two dashes before it: npm start -- --port 9155");
  expect(status).toBe(1);
});
