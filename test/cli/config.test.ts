import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readConfig } from "../../packages/millrace/cli/wiring/config.ts";
import { unbound } from "../../packages/millrace/cli/wiring/mistakes.ts";
import { emptyFolder } from "./folder.ts";

function saved(text: string): string {
  const file = join(emptyFolder(), "wrangler.jsonc");
  writeFileSync(file, text);
  return file;
}

it("comments and trailing commas are removed from a configuration; similar characters in a string are kept", () => {
  const text = `// one\n{ "a": "// no, \\" /* no */", /* two\n lines */ "b": [1, 2, ], // three\n "c": ", ]", }`;
  expect(readConfig(saved(text))).toEqual({ a: '// no, " /* no */', b: [1, 2], c: ", ]" });
});

it("a byte order mark before a configuration is ignored", () => {
  expect(readConfig(saved('\ufeff{ "a": 1 }'))).toEqual({ a: 1 });
});

it.each([
  ['{\n  "a": 1\n  "b": 2\n}', 3],
  ['{\n  // "x"\n  "a": [1,\n}', 4],
  ['{ "a": 1', 1],
])("an invalid JSON configuration is reported with its line", (text, line) => {
  expect(() => readConfig(saved(text))).toThrow(new RegExp(`wrangler.jsonc:${line} is not JSON: `));
});

it("a missing binding that the engine needs stops the command, with the line to add", () => {
  const bound = { name: "shop", d1_databases: [{ binding: "DB", database_name: "tea" }], r2_buckets: [{ binding: "PAYLOADS" }] };
  expect(unbound(bound, ["MILLRACE_KEY"])).toEqual([]);
  const renamed = { name: "shop", d1_databases: [{ binding: "DATA", database_name: "tea" }] };
  expect(unbound(renamed, [])).toEqual([
    {
      says: 'wrangler.jsonc binds no D1 database as DB. Add to "d1_databases": { "binding": "DB", "database_name": "tea" }',
      stops: true,
    },
    {
      says: 'wrangler.jsonc binds no R2 bucket as PAYLOADS. Add to "r2_buckets": { "binding": "PAYLOADS", "bucket_name": "shop-payloads" }',
      stops: true,
    },
    { says: ".dev.vars sets no MILLRACE_KEY. Add MILLRACE_KEY= with the value that it had.", stops: true },
  ]);
});
