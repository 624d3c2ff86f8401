import { expect, it } from "vitest";
import { openMigrated } from "../migrations.ts";
import { withoutComments } from "./read-sql.ts";
import { sources as allSources } from "./sources.ts";

const STORE = "engine/store/";

/** Files with statements built from lists of tables, the app's tables included: they remove a tenant's rows, or rewrite personal data. */
const BY_LIST = ["engine/erase/remove-tenant.ts", "engine/erase/rewrite.ts"];

/** Test helpers that age the rows of any table. */
const CLOCK = "engine/testing/clock.ts";

const sources = allSources(/\.ts$/).map(({ file, text }) => ({ file, text: withoutComments(text) }));

/** All tables of the database. */
function tables(): string[] {
  return openMigrated()
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .map(({ name }) => String(name));
}

const WRITE = /\b(?:INSERT(?: OR [A-Z]+)? INTO|REPLACE INTO|UPDATE(?: OR [A-Z]+)?|DELETE FROM)\s+([a-z_]+)\b/g;
const NAMED = /\b(?:FROM|JOIN|INTO|UPDATE(?: OR [A-Z]+)?)\s+([a-z_]+)\b/g;

const namedBy = (pattern: RegExp, text: string) => [...new Set([...text.matchAll(pattern)].map(([, table = ""]) => table))];

/** The tables that the engine writes, with the files that write them. */
const written = Map.groupBy(
  sources
    .filter(({ file }) => file.startsWith("engine/"))
    .flatMap(({ file, text }) => namedBy(WRITE, text).map((table) => ({ file, table }))),
  ({ table }) => table,
);
const engineTables = tables().filter((table) => written.has(table));

/** The place of a table's statements: a file of its name, or a folder. */
const homeOf = (table: string) => STORE + table.replace("millrace_", "").replaceAll("_", "-");

it("each of the engine's tables is written in one file or folder of its store, which has the table's name", () => {
  expect(engineTables).toEqual([
    "millrace_actions",
    "millrace_alerts",
    "millrace_approvals",
    "millrace_audit_opened",
    "millrace_bulk_actions",
    "millrace_bulk_items",
    "millrace_bulk_lists",
    "millrace_cells",
    "millrace_counts",
    "millrace_dead_letters",
    "millrace_divergences",
    "millrace_failed_deliveries",
    "millrace_fences",
    "millrace_inbox",
    "millrace_instances",
    "millrace_lanes",
    "millrace_limits",
    "millrace_locks",
    "millrace_moved",
    "millrace_outbox",
    "millrace_pauses",
    "millrace_schedule_runs",
    "millrace_schedules",
    "millrace_sequences",
    "millrace_sign_in_codes",
    "millrace_signals",
    "millrace_stated_events",
    "millrace_tallies",
    "millrace_tenant_objects",
    "millrace_tokens",
    "millrace_tombstones",
    "millrace_waits",
  ]);
  const astray = engineTables.flatMap((table) =>
    (written.get(table) ?? [])
      .filter(({ file }) => file !== CLOCK && file !== `${homeOf(table)}.ts` && !file.startsWith(`${homeOf(table)}/`))
      .map(({ file }) => `${file} writes ${table}: move the statement into a function of ${homeOf(table)}, and call that function.`),
  );
  expect(astray).toEqual([]);
});

it("only the engine has its tables in SQL: the app uses the engine's exports", () => {
  const spelled = sources
    .filter(({ file }) => !file.startsWith("engine/"))
    .flatMap(({ file, text }) =>
      namedBy(NAMED, text)
        .filter((table) => engineTables.includes(table))
        .map((table) => `${file} names ${table}: export the query from ${homeOf(table)}, through an entry point of the engine.`),
    );
  expect(spelled).toEqual([]);
});

it("no statement of the engine is built with a table's name, except in the two files that use lists of tables", () => {
  const puts = sources
    .filter(({ file }) => file.startsWith("engine/"))
    .filter(({ text }) => /"(?:INSERT INTO|UPDATE|UPDATE OR REPLACE|DELETE FROM)"|\b(?:INTO|UPDATE|DELETE FROM) \$\{/.test(text))
    .map(({ file }) => file);
  expect(puts.toSorted()).toEqual(BY_LIST);
});
