import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { sources } from "./sources.ts";

const ROOT = join(import.meta.dirname, "../..");
const WIDTH = 140;

/** A sentence or a pattern on one line, which stays searchable; SQL is excluded. */
const WHOLE_TEXT = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|\/(?:\\.|[^/\\\s])(?:\\.|[^/\\])*\/i/g;
const SQL = /^.\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b|([\w.]+, ){5}/;

/** A line without its complete texts. */
function broken(line: string): string {
  return line.replaceAll(WHOLE_TEXT, (text) => (SQL.test(text) ? text : '""'));
}

it("no line is wider than 140 columns, except for a sentence in one string", () => {
  const wide = sources()
    .flatMap(({ path, text }) => text.split("\n").map((line, index) => ({ line, place: `${path}:${index + 1}` })))
    .filter(({ line }) => line.length > WIDTH && broken(line).length > WIDTH);
  expect(wide.map(({ place, line }) => `${place} is ${line.length} columns wide: ${line.trim()}`)).toEqual([]);
});

it("no file contains both sides of a merge conflict", () => {
  const files = execFileSync("git", ["ls-files", "-z"], { cwd: ROOT, encoding: "utf8" })
    .split("\0")
    .filter((name) => /\.(ts|md|sql|jsonc?|ya?ml)$/.test(name) && existsSync(join(ROOT, name)));
  expect(files.filter((file) => /^(<{7}|>{7}|> > > > )/m.test(readFileSync(join(ROOT, file), "utf8")))).toEqual([]);
});

it.each(["src", "packages", "demo", "examples", "test"])("no file of %s is longer than 400 lines", (room) => {
  const files = globSync(`${room}/**/*.{ts,tsx}`, { cwd: ROOT, exclude: ["**/dist", "**/node_modules"] });
  expect(files.filter((file) => readFileSync(join(ROOT, file), "utf8").split("\n").length > 400)).toEqual([]);
});
