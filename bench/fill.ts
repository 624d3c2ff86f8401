import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { misused, numberOption, readOptions } from "../packages/millrace/cli/options.ts";
import { MIGRATION_FOLDERS, openMigrated } from "../test/migrations.ts";
import { fillStatements, PORTION } from "./fill/statements.ts";

// Run with `node bench/fill.ts`. Creates a database with a million instances, three million entries and a hundred thousand dead letters in
// a few minutes.

const USAGE =
  "Usage: node bench/fill.ts [--file .millrace/bench/filled.sqlite] [--tenant acme] [--instances 1000000]. " +
  "Fills an SQLite file: a new file after all migrations, or the file of a stopped local D1.";
const { values } = readOptions(USAGE, {
  options: {
    file: { type: "string", default: ".millrace/bench/filled.sqlite" },
    tenant: { type: "string", default: "acme" },
    instances: { type: "string", default: "1000000" },
  },
});
const of = numberOption(USAGE, "instances", values.instances, { least: 1 });
if (!/^[a-z0-9][a-z0-9_-]{0,60}$/.test(values.tenant)) misused(`"${values.tenant}" is not a valid tenant name.`, USAGE);

const began = Date.now();
const database = openDatabase(values.file);
const mark = (Date.now() & 0xffffffff).toString(16).padStart(8, "0").slice(-8);
for (let from = 0; from < of; from += PORTION) {
  const to = Math.min(of, from + PORTION);
  database.exec("BEGIN");
  for (const statement of fillStatements({ tenantId: values.tenant, mark, from, to, of })) database.exec(statement);
  database.exec("COMMIT");
  console.error(`${to} of ${of} instances after ${Math.round((Date.now() - began) / 1000)} s`);
}
const count = (table: string) => database.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows;
for (const table of [
  "millrace_instances",
  "millrace_inbox",
  "millrace_dead_letters",
  "millrace_approvals",
  "millrace_actions",
  "millrace_tombstones",
  "millrace_stated_events",
]) {
  console.log(`${table} ${count(table)}`);
}
database.close();

function openDatabase(file: string): DatabaseSync {
  const isNew = !existsSync(file);
  mkdirSync(dirname(file), { recursive: true });
  try {
    const opened = openMigrated(file, isNew ? MIGRATION_FOLDERS : []);
    opened.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;");
    return opened;
  } catch (error) {
    if (isNew) rmSync(file);
    throw error;
  }
}
