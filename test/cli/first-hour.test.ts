import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { freePort } from "../../src/cli/local/ports.ts";
import { ROOT } from "../../src/cli/local/wrangler.ts";
import { emptyFolder } from "./folder.ts";

/** What a new user has: the files of a clone, and the packages. */
function clone(): string {
  const folder = emptyFolder();
  const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "src", "migrations", "*.json", "*.jsonc"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  for (const file of files.trim().split("\n")) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** Less than the test has; a busy machine takes more than a minute for a start. */
const SAYS_WITHIN_MS = 150_000;

/** `npm start` in a clone, and a look at what it says. */
class Terminal {
  readonly #child: ChildProcess;
  readonly #folder: string;
  #said = "";
  #read = 0;

  constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#child = spawn(process.execPath, ["src/cli/launch.js", "start", "--port", String(port)], { cwd: folder });
    this.#child.stdout?.on("data", (chunk) => {
      this.#said += chunk;
    });
    this.#child.stderr?.on("data", (chunk) => {
      this.#said += chunk;
    });
    // It ends its engine itself, which lives in a process group of its own.
    onTestFinished(async () => void (await this.end()));
  }

  /** Waits until it says something that it has not said yet. Answers everything up to there. */
  async says(what: string): Promise<string> {
    for (const until = Date.now() + SAYS_WITHIN_MS; Date.now() < until; ) {
      const at = this.#said.indexOf(what, this.#read);
      if (at >= 0) {
        const text = this.#said.slice(this.#read, at + what.length);
        this.#read = at + what.length;
        return text;
      }
      if (this.#child.exitCode !== null) throw new Error(`It ended, and did not say “${what}”:\n${this.#said}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`It did not say “${what}”, but:\n${this.#said.slice(this.#read)}`);
  }

  /** Saves a mistake, waits for its sentence, and mends it. Answers how long the sentence took, and what was said behind it. */
  async mistake(file: string, right: string, wrong: string, sentence: string): Promise<{ took: number; meanwhile: string }> {
    const path = join(this.#folder, file);
    const text = readFileSync(path, "utf8");
    expect(text, `${file} holds what is to be broken`).toContain(right);
    const since = Date.now();
    writeFileSync(path, text.replace(right, wrong));
    await this.says(sentence);
    const took = Date.now() - since;
    writeFileSync(path, text);
    return { took, meanwhile: await this.says("That is mended.") };
  }

  async end(): Promise<number | null> {
    if (this.#child.exitCode === null) {
      this.#child.kill("SIGINT");
      await once(this.#child, "exit");
    }
    return this.#child.exitCode;
  }
}

it("the first hour: from a clone to a page, then mistakes, each told in a sentence while everything runs on", async () => {
  const port = await freePort();
  const began = Date.now();
  const folder = clone();
  const terminal = new Terminal(folder, port);
  const welcome = await terminal.says("Stop ");
  const times: [string, number][] = [["it runs", Date.now() - began]];

  // The command that is printed, word for word. The token stands in the address of the page alone.
  const token = readFileSync(join(folder, ".millrace/token"), "utf8").trim();
  expect(welcome.split(token)).toHaveLength(2);
  const curl = /^ {2}(curl \S+\/v1\/commands[\s\S]*?')$/m.exec(welcome)?.[1] ?? "";
  expect(JSON.parse(execFileSync("sh", ["-c", `${curl} -s`], { cwd: folder, encoding: "utf8" }))).toMatchObject({
    correlation_id: "my-first-job",
    replayed: false,
  });
  const [page = ""] = /http\S+\/pages\/\S+/.exec(welcome) ?? [];
  await expect.poll(async () => (await fetch(page)).status, { timeout: 60_000 }).toBe(200);
  times.push(["a page is read", Date.now() - began]);
  expect(await (await fetch(page)).text()).toContain("Cold brew");

  const mistakes: [string, string, string, string, string][] = [
    [
      "what does not compile",
      "src/workflows/plan-cycle.ts",
      "export const",
      "exprt const",
      'src/workflows/plan-cycle.ts:7 does not compile: Expected ";" but found "const"',
    ],
    [
      "a class that is not exported",
      "src/worker.ts",
      "export class PlanCycle extends entrypoint(workflows.planCycle) {}",
      "",
      'The class of "plan-cycle" is not exported. Add this line to src/worker.ts: export class PlanCycle extends entrypoint(workflows.planCycle) {}',
    ],
    [
      "a class of another workflow",
      "src/worker.ts",
      "class PlanCycle extends entrypoint(workflows.planCycle)",
      "class PlanCycle extends entrypoint(workflows.auditBrand)",
      'PlanCycle runs "audit-brand", but it is bound as "plan-cycle" in wrangler.jsonc. In src/worker.ts: export class PlanCycle extends entrypoint(workflows.planCycle) {}',
    ],
    [
      "an event workflow that nobody starts",
      "src/consumers/routes.ts",
      "start(generateArticle), ",
      "",
      '"generate-article" follows an event, but no route starts it: add on(Event, start(…)).',
    ],
    [
      "an event without a line in the routes",
      "src/consumers/routes.ts",
      "on(BrandAudited),",
      "",
      'The event "brand.audited" (src/messages/brand.ts) has no line in the routes: each would become a dead letter. Add to src/consumers/routes.ts: on(BrandAudited),',
    ],
  ];
  for (const [what, file, right, wrong, sentence] of mistakes) {
    const { took, meanwhile } = await terminal.mistake(file, right, wrong, sentence);
    times.push([what, took]);
    if (!meanwhile.includes("It runs all the same.")) {
      expect(meanwhile).toContain("What ran before runs on");
      expect(meanwhile, what).not.toContain("loaded anew");
    }
  }
  expect((await fetch(page)).status).toBe(200);
  expect(await terminal.end()).toBe(0);
  console.info(times.map(([what, ms]) => `${(ms / 1000).toFixed(1).padStart(6)} s  ${what}`).join("\n"));
});
