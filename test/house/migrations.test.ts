import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { ENGINE_SCHEMA, notApplied, type SchemaRow } from "../../packages/millrace/src/store/schema.ts";
import { schema } from "../../src/api/schema.ts";

const FOLDER = resolve(import.meta.dirname, "../../migrations");

interface Line {
  where: string;
  code: string;
  comment: string;
  strings: string[];
}

/** A line of SQL, taken apart: what runs, what is said about it, and the texts within what runs. */
function read(text: string, where: string): Line {
  const strings = [...text.matchAll(/'(?:[^']|'')*'|--.*$/g)].filter(([found]) => found.startsWith("'")).map(([found]) => found);
  const bare = text.replaceAll(/'(?:[^']|'')*'|--.*$/g, (found) => (found.startsWith("--") ? found : "''"));
  const [code = "", ...comment] = bare.split("--");
  return { where, code, strings, comment: text.trimStart().startsWith("--") ? text.trimStart().slice(2) : comment.join("--") };
}

const files = readdirSync(FOLDER).toSorted();

/** What is wrong with a line, in a sentence. */
function faults({ where, code, comment, strings }: Line): string[] {
  const faults: string[] = [];
  const far = "Remote D1 splits the file into statements by itself";
  if (/['"`;]/.test(comment))
    faults.push(`${where}: a comment has a quote, a backtick or a semicolon. ${far} and may not know comments: say it in other words.`);
  if (strings.some((text) => /;|--/.test(text)))
    faults.push(`${where}: a text has a semicolon or a comment's sign. ${far} and may not know texts: say it in other words.`);
  if (/\bTRIGGER\b/i.test(code) && !/^CREATE TRIGGER .* BEGIN .*; END;$/.test(code))
    faults.push(`${where}: a trigger is not on one line with its BEGIN and END. ${far}, line by line: write it on one line.`);
  if (/[^\x20-\x7e]/.test(code + comment + strings.join(""))) faults.push(`${where}: there is more than plain ASCII. Write plain letters.`);
  return faults;
}

it("every migration survives any splitter: plain comments and texts, triggers on one line, nothing but ASCII", () => {
  const lines = files.flatMap((file) =>
    readFileSync(join(FOLDER, file), "utf8")
      .split("\n")
      .map((text, index) => read(text, `migrations/${file}:${index + 1}`)),
  );
  expect(lines.flatMap(faults)).toEqual([]);
});

it("migrations are numbered without a double, and named by words", () => {
  for (const file of files) expect(file, "A migration is called 0001_words.sql.").toMatch(/^\d{4}(_[a-z0-9]+)+\.sql$/);
  const numbers = files.map((file) => file.slice(0, 4));
  expect(numbers, "Two migrations have one number: give the newer one the next.").toEqual([...new Set(numbers)]);
});

/** Migrations that only change what is allowed in a column. */
const INVISIBLE = ["0045_pull_scope", "0047_own_scopes"];

it("a database that is behind is told by the first migration that it lacks, and one that has all of them is not", () => {
  const known = { ...ENGINE_SCHEMA, ...schema };
  const names = files.map((file) => file.replace(/\.sql$/, "")).filter((name) => !INVISIBLE.includes(name));
  expect(Object.keys(known).toSorted(), "Each migration stands in ENGINE_SCHEMA or in src/api/schema.ts with what it makes.").toEqual(
    names,
  );
  const database = new DatabaseSync(":memory:");
  for (const file of files) {
    const name = file.replace(/\.sql$/, "");
    const rows = () =>
      database.prepare("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index')").all() as unknown as SchemaRow[];
    if (!INVISIBLE.includes(name)) expect(notApplied(known, rows())?.migration).toBe(name);
    database.exec(readFileSync(join(FOLDER, file), "utf8"));
  }
  const rows = database.prepare("SELECT name, sql FROM sqlite_master").all() as unknown as SchemaRow[];
  expect(notApplied(known, rows)).toBeUndefined();
});

it("the page about a Worker of one's own copies the migrations of the engine", () => {
  const page = readFileSync(resolve(import.meta.dirname, "../../docs/own-worker.md"), "utf8");
  const copied = /^for number in ([\d ]+); do$/m.exec(page)?.[1]?.split(" ");
  const engine = [...Object.keys(ENGINE_SCHEMA), ...INVISIBLE].map((name) => name.slice(0, 4)).toSorted();
  expect(copied).toEqual(engine);
});

it.each([
  ["-- whoever's it is", "a comment"],
  ["  name TEXT NOT NULL, -- one; or two", "a comment"],
  ["INSERT INTO t VALUES ('a; b');", "a text"],
  ["CREATE TRIGGER t BEFORE UPDATE ON a", "a trigger"],
  ["-- naïve", "plain ASCII"],
])("the check finds what is wrong in %j", (text, fault) => {
  expect(faults(read(text, "a.sql:1"))).toEqual([expect.stringContaining(fault)]);
});
