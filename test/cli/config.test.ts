import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readConfig } from "../../packages/millrace/cli/wiring/config.ts";
import { emptyFolder } from "./folder.ts";

function saved(text: string): string {
  const file = join(emptyFolder(), "wrangler.jsonc");
  writeFileSync(file, text);
  return file;
}

it("comments and trailing commas are no part of a configuration; similar characters in a text are", () => {
  const text = `// one\n{ "a": "// no, \\" /* no */", /* two\n lines */ "b": [1, 2, ], // three\n "c": ", ]", }`;
  expect(readConfig(saved(text))).toEqual({ a: '// no, " /* no */', b: [1, 2], c: ", ]" });
});

it("a byte order mark before a configuration is no part of it", () => {
  expect(readConfig(saved('\ufeff{ "a": 1 }'))).toEqual({ a: 1 });
});

it.each([
  ['{\n  "a": 1\n  "b": 2\n}', 3],
  ['{\n  // "x"\n  "a": [1,\n}', 4],
  ['{ "a": 1', 1],
])("an invalid JSON configuration is reported with its line", (text, line) => {
  expect(() => readConfig(saved(text))).toThrow(new RegExp(`wrangler.jsonc:${line} is not JSON: `));
});
