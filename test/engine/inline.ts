import { afterAll, beforeAll, it } from "vitest";
import { IS_FULL_SIZE } from "../full-size.ts";
import { mode } from "../probe/mode.ts";

/** Runs the tests of other files once more, with inline steps. */
export async function alsoInline(...files: string[]): Promise<void> {
  beforeAll(() => {
    mode.steps = "inline";
  });
  afterAll(() => {
    mode.steps = "platform";
  });
  for (const file of files) await import(/* @vite-ignore */ `./${file}.test.ts?inline`);
}

/** Runs test files with inline steps if MILLRACE_FULL_SIZE is true. The gate runs only the files of `alsoInline` in this mode. */
export async function alsoInlineInFull(...files: string[]): Promise<void> {
  if (IS_FULL_SIZE) await alsoInline(...files);
  else it.skip(`with inline steps, if MILLRACE_FULL_SIZE=true: ${files.join(", ")}`, () => {});
}
