import { expect, it } from "vitest";
import { errorIn, lastError } from "../../packages/millrace/cli/local/wrangler.ts";

it.each([
  ["an earlier error", "▲ [WARNING] old\n✘ [ERROR] One.\n✘ [ERROR] Two.\nIf you think this is a bug", "Two."],
  [
    "the error of the Worker, and not the error of the runtime that follows from it",
    '✘ [ERROR] service core:user:millrace: Uncaught Error: MillraceError: Two workflows are named "a": rename one.\n✘ [ERROR] The Workers runtime failed to start.',
    'Two workflows are named "a": rename one.',
  ],
  [
    "an error in the JSON answer of a command",
    '\n{\n  "error": {\n    "text": "no such table: \\"tokens\\": SQLITE_ERROR"\n  }\n}\n',
    'no such table: "tokens": SQLITE_ERROR',
  ],
  [
    "an error that ends with a colon together with the list after it",
    '✘ [ERROR] Processing wrangler.json configuration:\n\n    - "durable_objects" is missing the required "bindings"\n  \n\n🪵  Logs were written',
    'Processing wrangler.json configuration: - "durable_objects" is missing the required "bindings"',
  ],
  ["the last output if no line is marked as an error", "Starting.\nKilled.", "Killed."],
])("a failing start reports %s", (_, output, said) => {
  expect(lastError(output)).toBe(said);
});

it.each([
  [
    "[wrangler:info] GET /healthz 200 OK (41355ms)\n⎔ Starting local server...\n▲ [WARNING] Scheduled Workers are not triggered.",
    undefined,
  ],
  ["✘ [ERROR] Address already in use\n[wrangler:info] GET /healthz 200 OK (3ms)", "Address already in use"],
  [
    "node:internal/modules/cjs/loader:1\nError: Cannot find module 'x'\n    at file.js:1:1\n\nNode.js v24.21.0",
    "Error: Cannot find module 'x'",
  ],
])("a failing start reports only a line that is an error: of %s it reports %s", (output, said) => {
  expect(errorIn(output)).toBe(said);
});
