import { globSync } from "node:fs";
import { ROOT, type Took } from "./took.ts";

/** What docs/own-worker.md writes: its test follows that page in a folder of its own, and runs the test there. */
const OF_ANOTHER = "test/docs/own-worker/";

/** All files of tests there are. */
export const testFiles = (): string[] => globSync("test/**/*.test.ts", { cwd: ROOT }).filter((file) => !file.startsWith(OF_ANOTHER));

/**
 * Says of each file how often it ran, where that was not once: a filter that leaves out too little shows as little by itself as one that
 * leaves out too much.
 */
export function notOnce(took: readonly Took[], files: readonly string[]): string[] {
  const ran = Map.groupBy(took, ({ file }) => file);
  return files.flatMap((file) => {
    const times = ran.get(file)?.length ?? 0;
    return times === 1 ? [] : [`${file} ran ${times} times.`];
  });
}
