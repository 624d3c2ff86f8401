/** A command of the gate. */
export interface Job {
  name: string;
  /** One of the programs on the path of npm scripts. */
  program: string;
  args: readonly string[];
  /** True for a run of vitest: it takes the seed and reports its times. */
  tests?: boolean;
}

const tests = (project: string, workers: number, ...more: string[]): Job => ({
  name: project,
  program: "vitest",
  args: ["run", "--project", project, "--maxWorkers", String(workers), ...more],
  tests: true,
});

/** The longest file by far: begun last, it would run alone at the end. */
const WALK = "test/docs/static/write-a-chain.test.ts";

/** Tests that have a runtime of their own, one after the other. */
const APART = ["test/proof/", "test/systems/privacy/", "test/docs/raw/"];

/**
 * What runs beside what: the jobs of a lane one after another, the lanes at once. Balanced for two processors, where what waits fills what
 * computes. A second runtime is started, filled and warmed up too: the app's files have one, and the engine's, which mostly wait, two.
 */
export const LANES: readonly (readonly Job[])[] = [
  [
    tests("app", 1),
    // In one run: what starts vitest reads its configuration, and wrangler with it, for some seconds of a processor.
    { ...tests("engine", 1, "--project", "privacy", "--project", "raw", ...APART), name: "apart" },
  ],
  [tests("engine", 2, "test/engine/")],
  [
    // The walk goes on from what the types' check has found.
    { name: "check", program: "npm", args: ["run", "--silent", "check"] },
    { ...tests("node", 1, WALK), name: "walk" },
    tests("node", 2, "--exclude", WALK),
  ],
];
