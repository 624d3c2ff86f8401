import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";
import { LAST_TIMES, ROOT, TIMES_FILE, type Took, writeTimes } from "./took.ts";

/** Reports the duration of each file: to the test run if that started the tests, otherwise as a list of the ten slowest. */
export default class Times implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const took = modules.map(tookBy);
    for (const said of modules.flatMap(saidBy)) console.log(` ${said}`);
    const file = process.env[TIMES_FILE];
    writeTimes(LAST_TIMES, took);
    if (file) writeTimes(file, took);
    else if (took.length > 1) console.log(`${slowest(took)}\n`);
  }
}

/** The tests' reports of their runs, also if they have passed. */
function saidBy(module: TestModule): string[] {
  return [...module.children.allTests()].flatMap((test) => test.meta().said ?? []);
}

function tookBy(module: TestModule): Took {
  const { duration, collectDuration, setupDuration } = module.diagnostic();
  const file = relative(ROOT, module.moduleId);
  return { file, ms: Math.round(duration + collectDuration + setupDuration), tests: [...module.children.allTests()].length };
}

/** The ten slowest files, one line each. */
export function slowest(took: readonly Took[]): string {
  const ten = took.toSorted((one, other) => other.ms - one.ms).slice(0, 10);
  return ["The slowest files:", ...ten.map(({ file, ms }) => `  ${(ms / 1000).toFixed(1).padStart(6)} s  ${file}`)].join("\n");
}
