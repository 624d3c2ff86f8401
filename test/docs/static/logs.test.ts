import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { sources as allSources } from "../../house/sources.ts";

const page = readFileSync(join(ROOT, "docs/logs.md"), "utf8");
const sources = allSources(/\.ts$/).filter(({ file }) => !file.startsWith("cli/"));

it("docs/logs.md lists every kind of log line that exists, and no other", () => {
  const written = new Set(sources.flatMap(({ text }) => [...text.matchAll(/\blog: "(\w+)"/g)].map(([, name = ""]) => name)));
  const rows = page.split("\n").filter((line) => /^\| `(?!log`)[a-z_]+`/.test(line));
  const named = rows.flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`(\w+)`/g)].map(([, name = ""]) => name));
  expect(named.toSorted()).toEqual([...written].toSorted());
});

it("every line of the log is written by one function, which sets its level", () => {
  const direct = sources.filter(
    ({ file, text }) => file !== "engine/contract/log-line.ts" && /\bconsole\.(log|warn|error|info)\(/.test(text),
  );
  expect(direct.map(({ file }) => file)).toEqual([]);
});
