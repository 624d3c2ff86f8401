import { expect, it } from "vitest";
import { lastError } from "../../src/cli/local/wrangler.ts";

it.each([
  ["what was last called an error", "▲ [WARNING] old\n✘ [ERROR] One.\n✘ [ERROR] Two.\nIf you think this is a bug", "Two."],
  [
    "what the Worker threw, though more is missing because of that",
    '✘ [ERROR] service core:user:millrace: Uncaught Error: MillraceError: Two workflows are named "a": rename one.\n✘ [ERROR] The Workers runtime failed to start.',
    'Two workflows are named "a": rename one.',
  ],
  ["the last words where nothing is called an error", "Starting.\nKilled.", "Killed."],
])("A start that fails says %s", (_, output, said) => {
  expect(lastError(output)).toBe(said);
});
