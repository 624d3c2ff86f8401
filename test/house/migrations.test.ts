import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ENGINE_SCHEMA, notApplied, type SchemaRow } from "../../packages/millrace/src/store/schema.ts";
import { schema } from "../../src/api/schema.ts";
import { MIGRATION_FOLDERS, openMigrated } from "../migrations.ts";

interface Line {
  where: string;
  code: string;
  comment: string;
  strings: string[];
}

/** A line of SQL, parsed: statements, comments, and the texts within statements. */
function read(text: string, where: string): Line {
  const strings = [...text.matchAll(/'(?:[^']|'')*'|--.*$/g)].filter(([found]) => found.startsWith("'")).map(([found]) => found);
  const bare = text.replaceAll(/'(?:[^']|'')*'|--.*$/g, (found) => (found.startsWith("--") ? found : "''"));
  const [code = "", ...comment] = bare.split("--");
  return { where, code, strings, comment: text.trimStart().startsWith("--") ? text.trimStart().slice(2) : comment.join("--") };
}

/** Each migration, by its name without `.sql`. */
const migrations = new Map(
  MIGRATION_FOLDERS.flatMap((folder) => readdirSync(folder).map((file) => [file.replace(/\.sql$/, ""), join(folder, file)] as const)),
);

/** The error of a line, as a sentence. */
function faults({ where, code, comment, strings }: Line): string[] {
  const faults: string[] = [];
  const far = "Remote D1 splits the file into statements by itself";
  if (/['"`;]/.test(comment))
    faults.push(
      `${where}: a comment has a quote, a backtick or a semicolon. ${far} and may not recognize comments: write the comment without that character.`,
    );
  if (strings.some((text) => /;|--/.test(text)))
    faults.push(
      `${where}: a text has a semicolon or a comment's sign. ${far} and may not recognize string literals: write the text without that character.`,
    );
  if (/\bTRIGGER\b/i.test(code) && !/^CREATE TRIGGER .* BEGIN .*; END;$/.test(code))
    faults.push(`${where}: a trigger is not on one line with its BEGIN and END. ${far}, line by line: write the trigger on one line.`);
  if (/[^\x20-\x7e]/.test(code + comment + strings.join("")))
    faults.push(`${where}: the line has characters outside ASCII. Write ASCII only.`);
  return faults;
}

it("every migration can be split by any SQL splitter: plain comments and texts, triggers on one line, only ASCII", () => {
  const lines = [...migrations].flatMap(([name, file]) =>
    readFileSync(file, "utf8")
      .split("\n")
      .map((text, index) => read(text, `${name}.sql:${index + 1}`)),
  );
  expect(lines.flatMap(faults)).toEqual([]);
});

it("the migrations of each folder have unique numbers and names made of words", () => {
  for (const folder of MIGRATION_FOLDERS) {
    const files = readdirSync(folder);
    for (const file of files) expect(file, "A migration is called 0001_words.sql.").toMatch(/^\d{4}(_[a-z0-9]+)+\.sql$/);
    const numbers = files.map((file) => file.slice(0, 4));
    expect(numbers, "Two migrations have one number: give the newer migration the next number.").toEqual([...new Set(numbers)]);
  }
});

it("the health check names the first missing migration of a database, also after a partial migration", () => {
  const known = { ...ENGINE_SCHEMA, ...schema };
  expect(Object.keys(known).toSorted(), "Name each migration in ENGINE_SCHEMA or in src/api/schema.ts.").toEqual(
    [...migrations.keys()].toSorted(),
  );
  const database = openMigrated(":memory:", []);
  const rows = () => database.prepare("SELECT name, sql FROM sqlite_master").all() as unknown as SchemaRow[];
  for (const name of Object.keys(known).toSorted()) {
    expect(notApplied(known, rows())?.migration).toBe(name);
    const statements = readFileSync(migrations.get(name) ?? "", "utf8").split(/;$/m);
    const lastThatCreates = statements.findLastIndex((text) =>
      /^\s*(?:--.*\s+)*(?:CREATE (?:UNIQUE )?(?:TABLE|INDEX)|ALTER TABLE \w+ ADD COLUMN)/.test(text),
    );
    database.exec(statements.slice(0, lastThatCreates).join(";"));
    expect(notApplied(known, rows())?.migration, "ENGINE_SCHEMA must name the last table, column or index that a migration creates.").toBe(
      name,
    );
    database.exec(statements.slice(lastThatCreates).join(";"));
  }
  expect(notApplied(known, rows())).toBeUndefined();
});

/**
 * The permitted statements of a migration after the first. The code before the migration and the code after it both run on the same
 * schema.
 */
const ADDITIVE = [
  /^CREATE TABLE /,
  /^CREATE INDEX /,
  /^CREATE TRIGGER \w+ AFTER /,
  /^DROP (?:INDEX|TRIGGER) /,
  /^ALTER TABLE \w+ ADD COLUMN \w+ (?:TEXT|INTEGER|REAL|BLOB)(?: CHECK \(.*\))?$/,
  /^ALTER TABLE \w+ ADD COLUMN \w+ (?:TEXT|INTEGER|REAL|BLOB) NOT NULL DEFAULT \S+$/,
];

/** Statements that may break the code before or after them. */
const unsafe = (text: string) =>
  text
    .replaceAll(/--.*$/gm, "")
    .split(/;\s*$/m)
    .map((statement) => statement.trim().replaceAll(/\s+/g, " "))
    .filter((statement) => statement !== "" && !ADDITIVE.some((form) => form.test(statement)));

it("every migration after the first only adds: the code before it still runs, also after a rollback", () => {
  const behind = [...migrations].filter(([name]) => !name.startsWith("0001_"));
  expect(behind.flatMap(([name, file]) => unsafe(readFileSync(file, "utf8")).map((statement) => `${name}: ${statement}`))).toEqual([]);
});

it.each([
  "DROP TABLE millrace_waits",
  "ALTER TABLE millrace_waits RENAME TO millrace_held",
  "ALTER TABLE millrace_waits RENAME COLUMN name TO label",
  "ALTER TABLE millrace_waits DROP COLUMN name",
  "ALTER TABLE millrace_waits ADD COLUMN label TEXT NOT NULL",
  "CREATE UNIQUE INDEX millrace_waits_one ON millrace_waits (name)",
  "CREATE TRIGGER millrace_waits_refuse BEFORE INSERT ON millrace_waits BEGIN SELECT RAISE(ABORT, 'no'); END",
  "UPDATE millrace_waits SET name = ''",
])("a migration that breaks running code is reported: %s", (statement) => {
  expect(unsafe(`${statement};\n`)).toEqual([statement]);
});

it("a migration that only adds is not refused", () => {
  const adds =
    "CREATE TABLE a (id TEXT) STRICT;\nALTER TABLE b ADD COLUMN c INTEGER NOT NULL DEFAULT 0; -- Why.\nCREATE INDEX d ON b (c);\n";
  expect(unsafe(adds)).toEqual([]);
});

it("every table, index and trigger of the engine begins with millrace_, and none of the app does", () => {
  const names = (folder: string | undefined) =>
    openMigrated(":memory:", folder === undefined ? [] : [folder])
      .prepare("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
      .all()
      .map(({ name }) => String(name));
  const [engine, app] = [names(MIGRATION_FOLDERS[0]), names(MIGRATION_FOLDERS[1])];
  expect(engine.length).toBeGreaterThan(60);
  expect(engine.filter((name) => !name.startsWith("millrace_"))).toEqual([]);
  expect(app.filter((name) => name.startsWith("millrace_"))).toEqual([]);
});

it.each([
  ["-- whoever's it is", "a comment"],
  ["  name TEXT NOT NULL, -- one; or two", "a comment"],
  ["INSERT INTO t VALUES ('a; b');", "a text"],
  ["CREATE TRIGGER t BEFORE UPDATE ON a", "a trigger"],
  ["-- naïve", "outside ASCII"],
])("the check of migrations finds the error in %j", (text, fault) => {
  expect(faults(read(text, "a.sql:1"))).toEqual([expect.stringContaining(fault)]);
});
