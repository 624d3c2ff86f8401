import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

function run(args: readonly string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["packages/millrace/cli/launch.js", ...args], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

it.each([
  [["dev", "--help"], "Usage: npx millrace dev [--port 8787]"],
  [["dev", "-h", "--port", "1"], "Usage: npx millrace dev [--port 8787]"],
  [["cost", "--help"], "Usage: npx millrace cost [--url http://localhost:8787]"],
  [["--help"], "dev               run the Worker on this machine"],
  [["--version"], "0.1.0"],
  [["instances", "retry", "--help"], "Usage: npx millrace instances retry ID [options]."],
])('the wrong call "%s" starts nothing, and prints its usage', (args, said) => {
  const { status, stdout, stderr } = run(args);
  expect(stderr).toBe("");
  expect(stdout).toContain(said);
  expect(status).toBe(0);
});

it.each([
  [["dev", "9155"], 'dev has no "9155". To choose a port: npx millrace dev --port 9155'],
  [["dev", "--prot", "9155"], 'There is no option "--prot". Usage: npx millrace dev'],
  [["cost", "--month", "3"], "Unknown option '--month'. Usage: npx millrace cost"],
  [["cost", "--runs", "many"], '--runs must be a whole number from 1; got "many".'],
  [["strat"], 'There is no command "strat". Commands: init, dev, migrate'],
  [["instnces", "list"], "Did you mean instances?"],
])('the wrong call "%s" starts nothing, and prints the correct form', (args, said) => {
  const { status, stderr } = run(args);
  expect(stderr).toContain(said);
  expect(status).toBe(2);
});

it("a port that npm parses as its own option, as in `npm start --port 9155`, is reported", () => {
  const { status, stderr } = run(["dev"], { npm_config_port: "9155" });
  expect(stderr).toContain("npm consumed the option --port. Use: npx millrace dev --port 9155");
  expect(status).toBe(2);
});

it("a port that browsers block is refused", () => {
  const { status, stderr } = run(["dev", "--port", "22"]);
  expect(stderr).toContain("Browsers block port 22, which belongs to another protocol. Choose another: npx millrace dev --port 8787");
  expect(status).toBe(1);
});

/** The scripts of `package.json` that are programs of this repository. */
const scripts = Object.entries<string>(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).scripts).filter(([, line]) =>
  line.startsWith("node "),
);

function script(line: string, ...args: string[]) {
  const [, ...words] = line.split(" ");
  const { status, stdout, stderr } = spawnSync(process.execPath, [...words, ...args], { cwd: ROOT, encoding: "utf8" });
  return { status, stdout, stderr };
}

it("every script with options is tested in this file", () => {
  expect(scripts.map(([name]) => name).sort()).toEqual(
    ["start", "demo", "token", "cost", "prepare", "test", "test:near", "chaos", "e2e:real", "e2e:traces", "bench", "bench:budgets"].sort(),
  );
});

it.each(scripts)("npm run %s -- --help lists its options, and does nothing else", (name, line) => {
  const { status, stdout, stderr } = script(line, "--help");
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^Usage: np[mx] /);
  const own: Record<string, string> = {
    start: "npx millrace dev ",
    cost: "npx millrace cost ",
    token: "npx millrace token ",
    test: "npm test -- ",
  };
  expect(stdout).toContain(own[name] ?? `npm run ${name} -- `);
  expect(status).toBe(0);
});

it.each(scripts)("npm run %s with an unknown option prints the known options", (_, line) => {
  const { status, stdout, stderr } = script(line, "--no-such-thing");
  expect(stdout).toBe("");
  expect(stderr).toMatch(/--no-such-thing['"].*[\n ]Usage: np[mx] /);
  expect(stderr).not.toMatch(/^ +at /m);
  expect(status).toBe(2);
});

it.each([
  ["bench", "--rounds", "many", 'got "many"'],
  ["bench:budgets", "--asks", "0", "--asks must be a whole number of at least 1"],
  ["e2e:real", "--kills", "101", "--kills must be a whole number from 0 to 100"],
  ["chaos", "--minutes", "", '--minutes must be a number of at least 0; got ""'],
  ["chaos", "--fault", "storm", "--fault is one of"],
  ["test", "--seed", "x", "--seed must be a whole number"],
  ["token", "--days", "0", "--days is 1 to 3660"],
])("npm run %s -- %s %s is refused with the correct form", (name, option, value, said) => {
  const line = scripts.find(([one]) => one === name)?.[1] ?? "";
  const { status, stderr } = script(line, ...(name === "token" ? ["--tenant", "acme", "--actor", "ada"] : []), option, value);
  expect(stderr).toContain(said);
  expect(stderr).toMatch(/Usage: np[mx] /);
  expect(status).toBe(2);
});
