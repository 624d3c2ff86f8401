import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { stripVTControlCharacters } from "node:util";
import type { Job } from "./lanes.ts";
import { ROOT, TIMES_FILE } from "./took.ts";

export interface Ended {
  job: Job;
  ok: boolean;
  ms: number;
  /** All that it said, without the lines that were shown at once. */
  held: string[];
  /** The file with its times, if it runs tests. */
  times: string;
}

/** The line with which vitest reports a file, and those in which the proof says what it tried. */
const FILE_LINE = /^ ([✓❯×↓] .*\.test\.ts |proof: )/;

/** Where Node keeps what it has compiled: the gate starts some two hundred processes, and wrangler alone is a file of ten megabytes. */
const COMPILED = join(ROOT, "node_modules/.cache/node");

/**
 * The types' check and the bundler are programs of Go, whose collector takes a third of what they take of a processor and gives back an
 * eighth of their memory: it begins where memory would run short.
 */
const LATE_COLLECTOR = { GOGC: "off", GOMEMLIMIT: "3GiB" };

/**
 * Runs a job to its end. The line of each file is shown at once, everything else is held back until it is known whether anybody needs it.
 */
export function runJob(job: Job, { seed, times }: { seed: number; times: string }): Promise<Ended> {
  const began = Date.now();
  const held: string[] = [];
  const args = job.tests ? [...job.args, `--sequence.seed=${seed}`] : job.args;
  const child = spawn(job.program, args, {
    cwd: ROOT,
    env: { NODE_COMPILE_CACHE: COMPILED, ...LATE_COLLECTOR, ...process.env, [TIMES_FILE]: times, FORCE_COLOR: "0" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      const plain = stripVTControlCharacters(line);
      if (FILE_LINE.test(plain)) console.log(plain);
      else held.push(plain);
    });
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      const ms = Date.now() - began;
      console.log(` ${code === 0 ? "✓" : "✗"} ${job.name}: ${(ms / 1000).toFixed(1)} s`);
      resolve({ job, ok: code === 0, ms, held, times });
    });
  });
}
