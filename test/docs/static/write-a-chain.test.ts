import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished, vi } from "vitest";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "../../cli/folder.ts";
import { BUILT, linkPackages } from "../../cli/npm-start.ts";
import { TIMES_FILE } from "../../gate/took.ts";
import { ask } from "../ask.ts";
import { curlsOf } from "../run/curl.ts";
import { apply, movesOf } from "../walk.ts";

/** A copy's place of the contract test that the page's chain and the raw one both pass. */
const PROMISES = "test/docs/run/promises.test.ts";

/** A copy of the repository and its installation, to which a page can be applied. The packages are shared. */
function copyOfRepository(): string {
  const folder = emptyFolder();
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: ROOT, encoding: "utf8" });
  for (const file of files.split("\0").filter((name) => name !== "" && existsSync(join(ROOT, name)))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  cpSync(join(ROOT, BUILT), join(folder, BUILT));
  linkPackages(folder);
  return folder;
}

/** The command of a line, without its runner: `npx vitest run` is vitest's own program, `npm start` its script. */
function programOf(line: string, folder: string): string[] {
  const [runner, name = "", ...rest] = line.split(" ");
  if (runner === "npx" && name === "node") return rest;
  if (runner === "npx") return [join("node_modules", binOf(name)), ...rest];
  const script = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).scripts[name === "run" ? (rest[0] ?? "") : name] as string;
  const [command = "", ...args] = script.split(" ");
  return command === "node" ? args : [join("node_modules", binOf(command)), ...args];
}

function binOf(name: string): string {
  const owner = name === "tsc" ? "typescript" : name;
  const { bin } = JSON.parse(readFileSync(join(ROOT, "node_modules", owner, "package.json"), "utf8"));
  return join(owner, typeof bin === "string" ? bin : bin[name]);
}

function begin(program: readonly string[], folder: string): ChildProcess {
  // The vitest that runs this test must not be confused with the started one.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("VITEST") && name !== "NODE_ENV" && name !== TIMES_FILE),
  );
  return spawn(process.execPath, program, {
    cwd: folder,
    env: { ...(env as NodeJS.ProcessEnv), CI: "1", PWD: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** Runs a program to its end, and expects success. */
async function run(program: readonly string[], folder: string): Promise<string> {
  const child = begin(program, folder);
  onTestFinished(() => void child.kill("SIGTERM"));
  const [out, err, [code]] = await Promise.all([text(child.stdout as never), text(child.stderr as never), once(child, "exit")]);
  expect(code, `${program.join(" ")}\n${out}\n${err}`).toBe(0);
  return out;
}

/** The checkout's stored result of its last type check. */
const TYPES = join(ROOT, "node_modules/.cache/tsc.tsbuildinfo");

/**
 * Type-checks a copy where it differs from the checkout, if that has been checked. Its packages have the same apparent paths, so
 * that stored results apply. On one processor: beside other tests more would only compete.
 */
function typesKnown(folder: string): string[] {
  if (!existsSync(TYPES)) return ["--singleThreaded"];
  const known = join(folder, ".millrace/cache/tsc.tsbuildinfo");
  mkdirSync(dirname(known), { recursive: true });
  // Both are two folders deep, and have different names for the first folder's content.
  writeFileSync(known, readFileSync(TYPES, "utf8").replaceAll(/"\.\.\/(?!\.\.)/g, '"../../node_modules/'));
  return ["--singleThreaded", "--incremental", "--preserveSymlinks", "--tsBuildInfoFile", known];
}

/** Runs a program until the test ends, and continues when it reports that it is ready. */
async function keep(program: readonly string[], folder: string, ready: string): Promise<void> {
  const child = begin(program, folder);
  let said = "";
  onTestFinished(async () => {
    if (child.exitCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  });
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (said += chunk));
  await vi.waitUntil(() => said.includes(ready) || child.exitCode !== null, { timeout: 120_000 });
  expect(said, program.join(" ")).toContain(ready);
}

// A checkout that has followed the page has its files already.
it.skipIf(existsSync(join(ROOT, "src/messages/customers.ts")))(
  "following docs/write-a-chain.md exactly gives a chain that runs, breaks, is repaired and is tested",
  {
    timeout: 600_000,
  },
  async () => {
    const [port, deskPort] = [String(await freePort()), String(await freePort())];
    // Only the ports differ from the page's.
    const page = readFileSync(join(ROOT, "docs/write-a-chain.md"), "utf8").replaceAll("8787", port).replaceAll("28417", deskPort);
    const folder = copyOfRepository();
    cpSync(join(folder, "test/docs/raw/millrace.ts"), join(folder, PROMISES));
    const variables = new Map<string, string>();
    const lookUp = (name: string) => {
      const value = variables.get(name);
      if (value === undefined) throw new Error(`Nothing on the page says what $${name} is.`);
      return value;
    };
    const ran: string[] = [];

    for (const move of movesOf(page)) {
      if (move.do !== "run") {
        apply(move, folder);
        continue;
      }
      for (const curl of move.shell.includes("curl ") ? curlsOf(move.shell) : []) {
        const once = () => ask(curl, lookUp);
        const body = await (curl.method === "GET" ? vi.waitFor(once, { timeout: 60_000, interval: 100 }) : once());
        if (curl.method === "POST" && curl.url.endsWith("/v1/commands")) variables.set("ID", String(body?.instance_id));
        const [first] = Array.isArray(body?.items) ? body.items : [];
        if (curl.url.includes("state=in_doubt")) variables.set("KEY", first.key);
        ran.push("curl");
      }
      if (move.shell.includes("curl ")) continue;
      for (const line of move.shell.trim().split("\n")) {
        const [, name, value = ""] = /^([A-Z]+)=(.*)$/.exec(line) ?? [];
        if (name === "TOKEN") variables.set(name, readFileSync(join(folder, ".millrace/token"), "utf8").trim());
        else if (name)
          variables.set(
            name,
            value.replaceAll('"', "").replaceAll(/\$([A-Z]+)/g, (_, other) => lookUp(other)),
          );
        else if (line === "npm start") await keep([...programOf(line, folder), "--port", port], folder, "Millrace runs at");
        else if (line.includes("desk.ts")) await keep(programOf(line, folder), folder, "The desk is open");
        // The chain's own test, and the one for raw Workflows with it.
        else if (line.startsWith("npx vitest")) expect(await run([...programOf(line, folder), PROMISES], folder)).toContain(PROMISES);
        else if (line.startsWith("npx tsc")) await run([...programOf(line, folder), ...typesKnown(folder)], folder);
        else await run(programOf(line, folder), folder);
        if (!name) ran.push(line);
      }
    }
    expect(ran.filter((line) => line === "curl").length).toBeGreaterThan(15);
    expect(ran.filter((line) => line !== "curl")).toEqual(expect.arrayContaining(["npm start", "npx tsc --noEmit"]));
    expect(ran.at(-1)).toContain("npx vitest run test/app/welcome.test.ts");
  },
);
