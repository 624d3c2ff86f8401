import { globSync } from "node:fs";
import { ROOT, type Took } from "./took.ts";

/** The files of docs/own-worker.md: a test follows that page in a separate folder, and runs them there. */
const OF_ANOTHER = "test/docs/own-worker/";

/** All existing test files. */
export const testFiles = (): string[] => globSync("test/**/*.test.ts", { cwd: ROOT }).filter((file) => !file.startsWith(OF_ANOTHER));

/** Reports each file that ran zero times or twice. Without this check a filter that is too wide or too narrow would not be visible. */
export function notOnce(took: readonly Took[], files: readonly string[]): string[] {
  const ran = Map.groupBy(took, ({ file }) => file);
  return files.flatMap((file) => {
    const times = ran.get(file)?.length ?? 0;
    return times === 1 ? [] : [`${file} ran ${times} times.`];
  });
}
