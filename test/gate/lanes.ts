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

/**
 * What runs beside what: the jobs of a lane one after another, the lanes at once. Balanced for two processors, where what waits fills what
 * computes.
 */
export const LANES: readonly (readonly Job[])[] = [
  [tests("app", 3)],
  [tests("node", 2, "--exclude", WALK)],
  [
    { ...tests("node", 1, WALK), name: "walk" },
    tests("raw", 1),
    { name: "check", program: "npm", args: ["run", "--silent", "check"] },
    { ...tests("engine", 1, "test/proof"), name: "proof" },
    tests("privacy", 1),
  ],
  [tests("engine", 2, "--exclude", "test/proof/**")],
];
