import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Killer, Mutant } from "./mutant.ts";
import { effectOf, switchFor } from "./plugin.ts";

const ROOT = resolve(import.meta.dirname, "../../..");

/** The duration of random programs, and their selection. */
export interface Trying {
  seconds: number;
  seed: number;
}

/** The result of a run of tests. `broken`: no test reported, or the code could not run. `by`: the test, or the reason. */
export interface Ended {
  did: "passed" | "failed" | "broken";
  by: string;
  seconds: number;
}

/** The time for a tested run to converge: half of the usual time, because many bugs show by never converging. */
const PATIENCE_SECONDS = 30;

/** The additional time of a test run: its start, and failures that wait for a minute or two. */
const OVERTIME_SECONDS = 420;

/** Errors of invalid code: such a mutant fails by itself, and is not detected by a test. */
const NO_CODE = /syntax error|SQLITE_ERROR|no such (column|table|function)|is not defined|is not a function|Transform failed|SyntaxError/;

const FILES: Partial<Record<Killer, string>> = { random: "test/proof/random.test.ts", sweep: "test/proof/sweep.test.ts" };

/** Runs the detectors of these mutants, all of one project, until one has found a problem; without mutants, checks that none fails. */
export async function tryOut(killers: readonly Killer[], mutants: readonly Mutant[], { seconds, seed }: Trying): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-mutant-"));
  const leave = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", leave);
  const report = join(folder, "report.json");
  const files = killers.map((killer) => FILES[killer] ?? killer);
  const began = Date.now();
  try {
    const said = await vitest(
      [
        "run",
        "--project",
        projectOf(killers[0] ?? "random"),
        ...files,
        "--bail",
        "1",
        "--sequence.seed",
        String(seed),
        "--reporter",
        "json",
        "--outputFile",
        report,
      ],
      {
        MILLRACE_MUTANT: switchFor(mutants),
        MILLRACE_PROOF_SEED: String(seed),
        MILLRACE_PROOF_SECONDS: String(seconds),
        MILLRACE_PROOF_PATIENCE_SECONDS: String(PATIENCE_SECONDS),
        MILLRACE_PROOF_SHRINK_SECONDS: "0",
      },
      (seconds + OVERTIME_SECONDS) * 1000,
    );
    const { did, by } = judge(report, said, mutants);
    return { did, by, seconds: Math.round((Date.now() - began) / 1000) };
  } finally {
    leave();
    process.off("exit", leave);
  }
}

/** True for a separate test. */
export const isFile = (killer: Killer): boolean => !(killer in FILES);

/** The project of vitest.config.ts that runs a mutant's detector. */
export function projectOf(killer: Killer): string {
  const file = FILES[killer] ?? killer;
  if (/^test\/(engine|proof)\//.test(file)) return "engine";
  return file.startsWith("test/systems/privacy/") ? "privacy" : "app";
}

/** The output. A run that takes too long is ended with all its processes, and so is a run whose caller ends. */
function vitest(args: string[], env: Record<string, string>, limitMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const program = join(ROOT, "node_modules/.bin/vitest");
    const child = spawn(program, args, { cwd: ROOT, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const end = () => void (child.pid !== undefined && process.kill(-child.pid));
    const timer = setTimeout(end, limitMs);
    process.once("exit", end);
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        said += text;
      });
    }
    child.on("error", reject).on("close", () => {
      clearTimeout(timer);
      process.off("exit", end);
      resolve(said);
    });
  });
}

interface Report {
  testResults: { message: string; assertionResults: { fullName: string; status: string; failureMessages: string[] }[] }[];
}

function judge(report: string, said: string, mutants: readonly Mutant[]): Omit<Ended, "seconds"> {
  const missing = mutants.find((mutant) => !said.includes(effectOf(mutant)));
  if (missing) return { did: "broken", by: `${missing.file} was not loaded with it: ${said.trim().slice(-300)}` };
  const tests = read(report);
  const failed = tests.find(({ status }) => status === "failed");
  if (failed) {
    const message = failed.failureMessages.join("\n");
    const [noCode] = NO_CODE.exec(message) ?? [];
    if (noCode) return { did: "broken", by: `the code does not run: ${firstLine(message)}` };
    const [, seed] = /it\("seed (\d+)"/.exec(message) ?? [];
    return { did: "failed", by: seed ? `seed ${seed}: ${firstLine(message)}` : `${failed.fullName}: ${firstLine(message)}` };
  }
  const passed = tests.some(({ status }) => status === "passed");
  return passed ? { did: "passed", by: "" } : { did: "broken", by: `no test ran: ${said.trim().slice(-300)}` };
}

/** A test run without any report is broken: no test ran. */
function read(report: string): Report["testResults"][number]["assertionResults"] {
  try {
    return (JSON.parse(readFileSync(report, "utf8")) as Report).testResults.flatMap(({ assertionResults }) => assertionResults);
  } catch {
    return [];
  }
}

function firstLine(message: string): string {
  return (message.split("\n").find((line) => line.trim().length > 0) ?? "").slice(0, 200);
}
