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
  /** All output, without the lines that were printed at once. */
  held: string[];
  /** The file with the durations of the test files, if the job runs tests. */
  times: string;
}

/** vitest's line about a file, and the proof's lines about its cases. */
const FILE_LINE = /^ ([✓❯×↓] .*\.test\.ts |proof: )/;

/** Node's compile cache: the test run starts about 200 processes, and wrangler alone is a file of ten megabytes. */
const COMPILED = join(ROOT, "node_modules/.cache/node");

/**
 * The type check and the bundler are Go programs. Their garbage collector uses a third of their processor time and frees an eighth of
 * their memory: it starts only when memory runs short.
 */
const LATE_COLLECTOR = { GOGC: "off", GOMEMLIMIT: "3GiB" };

/** Runs a job until it ends. The line of each file is printed at once, other output only if the job fails. */
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
