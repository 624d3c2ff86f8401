import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { numberOption, readOptions } from "../../packages/millrace/cli/options.ts";
import { type Ended, runJob } from "./job.ts";
import { type Job, LANES } from "./lanes.ts";
import { nearestTests } from "./near.ts";
import { notOnce, testFiles } from "./once.ts";
import { slowest } from "./times.ts";
import { readTimes } from "./took.ts";

/**
 * `npm test`: types, lint, dead code and all tests. `npm test -- NAME …`: the tests whose path contains a name.
 * `npm run test:near`: the tests nearest to what changed. `--seed N` repeats an order.
 */
const USAGE = `Usage: npm test -- [part of a test's path …] [--seed 4711]
       npm run test:near -- [--seed 4711]
Without a part of a path: types, lint, dead code and all tests. test:near runs the tests nearest to what changed. --seed repeats an order.`;
const { values, positionals } = readOptions(USAGE, {
  allowPositionals: true,
  options: { near: { type: "boolean" }, seed: { type: "string" } },
});
const seed = values.seed === undefined ? randomInt(1_000_000) : numberOption(USAGE, "seed", values.seed, { most: 999_999_999 });
const began = Date.now();
console.log(`Files and tests are shuffled by the seed ${seed}; \`npm test -- --seed ${seed}\` repeats this order.`);

const lanes = values.near ? await near() : positionals.length > 0 ? [[only(positionals)]] : LANES;
const folder = mkdtempSync(join(tmpdir(), "millrace-gate-"));
const ended = (await Promise.all(lanes.map(runLane))).flat();
const took = ended.flatMap(({ times }) => readTimes(times));
rmSync(folder, { recursive: true, force: true });
const failed = ended.filter(({ ok }) => !ok);
for (const { job, held } of failed) console.log(`\n──── ${job.name} failed ────\n${held.join("\n")}`);
if (took.length > 1) console.log(`\n${slowest(took)}`);
// Files that fail while loading may have reported no durations.
const miscounted = lanes === LANES && failed.length === 0 ? notOnce(took, testFiles()) : [];
for (const sentence of miscounted) console.log(sentence);
console.log(`\n${summary()}`);
process.exitCode = failed.length + miscounted.length > 0 ? 1 : 0;

async function runLane(jobs: readonly Job[]): Promise<Ended[]> {
  const ended: Ended[] = [];
  for (const job of jobs) ended.push(await runJob(job, { seed, times: join(folder, `${job.name}.json`) }));
  return ended;
}

async function near(): Promise<Job[][]> {
  const { files, left, changed } = nearestTests();
  console.log(`Changed: ${changed.join(", ") || "nothing"}.`);
  if (left > 0) console.log(`${left} more test files are affected less directly: npm test runs them.`);
  return files.length > 0 ? [[only(files)]] : [];
}

function only(names: readonly string[]): Job {
  return { name: "tests", program: "vitest", args: ["run", ...names], tests: true };
}

function summary(): string {
  const parts = ended.map(({ job, ms, ok }) => `${ok ? "✓" : "✗"} ${job.name} ${Math.round(ms / 1000)} s`);
  const tests = took.reduce((sum, one) => sum + one.tests, 0);
  const wrong = [...failed.map(({ job }) => `${job.name} failed`), ...(miscounted.length > 0 ? ["not every file ran once"] : [])];
  const verdict = wrong.length === 0 ? "green" : wrong.join(", ");
  return `${parts.join(" · ")}\n${tests} tests in ${took.length} files, ${Math.round((Date.now() - began) / 1000)} s, seed ${seed}: ${verdict}.`;
}
