import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./took.ts";

/** A command of the test run. */
export interface Job {
  name: string;
  /** One of the programs on the path of npm scripts. */
  program: string;
  args: readonly string[];
  /** True for a run of vitest: it has a seed and reports durations. */
  tests?: boolean;
}

const tests = (project: string, workers: number, ...more: string[]): Job => ({
  name: project,
  program: "vitest",
  // A Worker's log lines would be sent to vitest one by one, and dropped there if a test passes: a sixth of the tests' processor time.
  args: ["run", "--project", project, "--maxWorkers", String(workers), "--disableConsoleIntercept", ...more],
  tests: true,
});

/** This job reuses the results of the type check, and so runs after it. */
const WALK = "test/docs/static/write-a-chain.test.ts";

/** Tests that start a separate runtime, one after another. */
const APART = ["test/proof/", "test/systems/privacy/", "test/docs/raw/", "test/cells/"];

/** Some of the engine's tests run here, so that all job lanes end at the same time. */
const EVEN = ["guard", "lanes", "signals"];
const ENGINE = readdirSync(join(ROOT, "test/engine"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
const folderOf = (name: string) => `test/engine/${name}/`;

/**
 * The schedule: the jobs of a lane in sequence, the lanes in parallel. Balanced for two processors: all lanes start at once and end at
 * about the same time, so that waiting jobs run concurrently with computing jobs. Starting a second runtime costs time too: the app's
 * files have one runtime, and the engine's, which mostly wait, have three.
 */
export const LANES: readonly (readonly Job[])[] = [
  [tests("app", 1)],
  [tests("engine", 3, ...ENGINE.flatMap(({ name }) => (EVEN.includes(name) ? [] : folderOf(name))))],
  [tests("node", 2, "--exclude", WALK)],
  [
    { name: "check", program: "npm", args: ["run", "--silent", "check"] },
    // Together in one run: each start of vitest reads its configuration, and wrangler with it, for some seconds of processor time.
    {
      ...tests(
        "engine",
        1,
        "--project",
        "privacy",
        "--project",
        "raw",
        "--project",
        "cells",
        "--project",
        "node",
        WALK,
        ...APART,
        ...EVEN.map(folderOf),
      ),
      name: "apart",
    },
  ],
];
