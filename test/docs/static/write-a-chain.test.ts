import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { ROOT, wranglerEnv } from "../../../packages/millrace/cli/local/wrangler.ts";
import { TIMES_FILE } from "../../gate/took.ts";
import { ask } from "../ask.ts";
import { ended, greeter, withPrograms } from "../greeter.ts";
import { curlsOf } from "../run/curl.ts";
import { apply, movesOf } from "../walk.ts";

/** Runs vitest with the contract of the chain in the reader's folder, with the sources of the package and the started desk. */
const CONTRACT = (deskUrl: string) => `
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { sourceDoors } from "${ROOT}/packages/millrace/cli/local/doors.ts";

const folders = ["node_modules/millrace/migrations", "migrations"];
const bindings = { TEST_MIGRATIONS: (await Promise.all(folders.map((folder) => readD1Migrations(folder)))).flat(), MILLRACE_KEY: "test" };
export default defineConfig({
  plugins: [cloudflareTest({ wrangler: { configPath: "wrangler.jsonc" }, miniflare: { bindings } })],
  resolve: { alias: Object.entries(sourceDoors()).map(([door, file]) => ({ find: new RegExp(\`^\${door}$\`), replacement: file })) },
  test: { include: ["src/promises.test.ts"], setupFiles: ["${ROOT}/test/migrate.ts"], provide: { deskUrl: "${deskUrl}" }, testTimeout: 60_000 },
});
`;

it("the instructions of docs/write-a-chain.md create a chain that runs, fails, is repaired and is tested", {
  timeout: 600_000,
}, async () => {
  const [port, deskPort] = [String(await freePort()), String(await freePort())];
  // Only the ports differ from the page's ports.
  const page = readFileSync(join(ROOT, "docs/write-a-chain.md"), "utf8").replaceAll("8787", port).replaceAll("28417", deskPort);
  const folder = greeter();
  // The vitest that runs this test must not be confused with the started one.
  const outer = Object.fromEntries(Object.entries(wranglerEnv(join(folder, "logs"))).filter(([name]) => !/^VITEST|^NODE_ENV$/.test(name)));
  const env = { ...(outer as NodeJS.ProcessEnv), PATH: withPrograms().PATH, PORT: port, NO_COLOR: "1", CI: "1", [TIMES_FILE]: undefined };
  // The programs are installed: npx needs no registry.
  const shell = (script: string) => ["-euo", "pipefail", "-c", `npx() { "$@"; }; ${script}`];
  const run = (script: string) => execFileSync("bash", shell(script), { cwd: folder, env, encoding: "utf8", stdio: "pipe" });

  /** Runs a program until the test ends, and returns when it reports that it is ready. */
  async function keep(script: string, ready: string): Promise<void> {
    const child: ChildProcess = spawn("bash", shell(script), { cwd: folder, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    onTestFinished(() => ended(child));
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
    await vi.waitUntil(() => output.includes(ready) || child.exitCode !== null, { timeout: 120_000 });
    expect(output, script).toContain(ready);
  }

  const variables = new Map<string, string>();
  const lookUp = (name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`The page does not define $${name}.`);
    return value;
  };
  let curls = 0;
  const ran: string[] = [];
  for (const move of movesOf(page)) {
    if (move.do !== "run") {
      apply(move, folder);
      continue;
    }
    if (move.shell.includes("curl ")) {
      for (const curl of curlsOf(move.shell)) {
        const once = () => ask(curl, lookUp);
        const body = await (curl.method === "GET" ? vi.waitFor(once, { timeout: 60_000, interval: 100 }) : once());
        if (curl.method === "POST" && curl.url.endsWith("/v1/commands")) variables.set("ID", String(body?.instance_id));
        const [first] = Array.isArray(body?.items) ? body.items : [];
        if (curl.url.includes("state=in_doubt")) variables.set("KEY", first.key);
        curls++;
      }
      continue;
    }
    for (const line of move.shell.trim().split("\n")) {
      const [, name, value = ""] = /^([A-Z]+)=(.*)$/.exec(line) ?? [];
      if (name === "TOKEN") variables.set(name, readFileSync(join(folder, ".millrace/token"), "utf8").trim());
      else if (name) {
        const filled = value.replaceAll('"', "").replaceAll(/\$([A-Z]+)/g, (_, other) => lookUp(other));
        variables.set(name, filled);
      } else if (line.includes("desk.ts")) await keep(line, "The desk is open");
      else if (line === "npx millrace dev") await keep(line, `Millrace runs at http://localhost:${port}`);
      else run(line);
      if (!name) ran.push(line);
    }
  }
  expect(curls).toBeGreaterThan(15);
  expect(ran).toEqual(expect.arrayContaining(["npx millrace dev", "npx vitest run src/welcome.test.ts"]));

  const promises = readFileSync(join(ROOT, "test/docs/own-worker/promises.ts"), "utf8");
  const inFolder = promises.replace("../../api/", `${ROOT}/test/api/`).replace("../raw/", `${ROOT}/test/docs/raw/`);
  writeFileSync(join(folder, "src/promises.test.ts"), inFolder);
  writeFileSync(join(folder, "promises.config.mts"), CONTRACT(lookUp("DESK")));
  expect(run("npx vitest run --config promises.config.mts")).toContain("10 passed");
});
