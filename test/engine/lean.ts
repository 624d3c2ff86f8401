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

/** The same, at the size that the contract names; the gate has the crash windows of `alsoLean`, and the proof draws the mode. */
export async function alsoLeanInFull(...files: string[]): Promise<void> {
  if (IS_FULL_SIZE) await alsoLean(...files);
  else it.skip(`in lean mode, with MILLRACE_FULL_SIZE=true: ${files.join(", ")}`, () => {});
}
