import { afterAll, beforeAll, it } from "vitest";
import { IS_FULL_SIZE } from "../full-size.ts";
import { mode } from "../probe/mode.ts";

/** Runs the tests of other files once more, with inline steps. */
export async function alsoLean(...files: string[]): Promise<void> {
  beforeAll(() => {
    mode.steps = "lean";
  });
  afterAll(() => {
    mode.steps = "platform";
  });
  for (const file of files) await import(/* @vite-ignore */ `./${file}.test.ts?lean`);
}

/** Runs test files with inline steps if MILLRACE_FULL_SIZE is true. The gate runs only the files of `alsoLean` in this mode. */
export async function alsoLeanInFull(...files: string[]): Promise<void> {
  if (IS_FULL_SIZE) await alsoLean(...files);
  else it.skip(`with inline steps, if MILLRACE_FULL_SIZE=true: ${files.join(", ")}`, () => {});
}
