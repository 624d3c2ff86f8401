import { env } from "cloudflare:workers";
import { erasure } from "millrace/operate";
import { expect, it } from "vitest";
import page from "../../../docs/privacy.md?raw";
import { APP_TENANT_TABLES, PERSON_TABLES, TEXT_TABLES } from "../../../src/systems/privacy/tables.ts";
import wrangler from "../../../wrangler.jsonc?raw";
import type { Json } from "../../api/client.ts";
import { rowsOf } from "../../docs/markdown.ts";
import { OBJECTS } from "./everything.ts";

const quoted = (cell = "") => [...cell.matchAll(/`(\w+)`/g)].map(([, word = ""]) => word);
const told = new Map(rowsOf(page, "table").map(([name, ...cells]) => [quoted(name)[0] ?? "", cells]));
const plain = new Set(rowsOf(page, "columns that are not searched").flatMap(([names]) => quoted(names)));

/** Every table, and its text columns. */
async function schema(): Promise<Map<string, string[]>> {
  const { results } = await env.DB.prepare(
    `SELECT t.name AS "table", c.name AS "column" FROM sqlite_master t, pragma_table_xinfo(t.name) c
     WHERE t.type = 'table' AND t.name NOT GLOB '_cf_*' AND t.name NOT IN ('d1_migrations', 'sqlite_sequence') AND c.type = 'TEXT'
     UNION SELECT name, '' FROM sqlite_master WHERE name = 'millrace_tombstones'`,
  ).all<Json>();
  const columns = Map.groupBy(results, ({ table }) => table as string);
  return new Map([...columns].map(([table, rows]) => [table, rows.flatMap(({ column }) => column || [])]));
}

it("docs/privacy.md lists for every table its personal data, the effect of the removal, and its retention", async () => {
  expect([...told.keys()].sort()).toEqual([...(await schema()).keys()].sort());
  for (const [name, cells] of told) for (const cell of cells) expect(cell, name).not.toBe("");
});

it("an erasure executes the searches and deletions that docs/privacy.md lists, and every other table has a reason", () => {
  for (const { table, texts } of TEXT_TABLES) expect(quoted(told.get(table)?.[0]), table).toEqual(texts);
  for (const table of PERSON_TABLES) expect(told.get(table)?.[1], table).toMatch(/^the row goes/);
  const named = new Set<string>([...TEXT_TABLES.map(({ table }) => table), ...PERSON_TABLES, "millrace_outbox", "millrace_tags"]);
  for (const [table, [holds]] of told) if (!named.has(table)) expect(holds, table).toMatch(/^nothing: \w/);
});

it("an erasure searches every text column or deletes its row, or docs/privacy.md lists the column as not searched", async () => {
  const searched = new Map(TEXT_TABLES.map(({ table, texts }) => [table, texts]));
  // The tags in the messages, which are searched, determine those of millrace_tags.
  const whole = new Set<string>([...PERSON_TABLES, "millrace_outbox", "millrace_tags"]);
  const forgotten = [...(await schema())].flatMap(([table, columns]) =>
    whole.has(table) ? [] : columns.filter((one) => !searched.get(table)?.includes(one) && !plain.has(one)).map((one) => `${table}.${one}`),
  );
  expect(forgotten).toEqual([]);
});

it("docs/privacy.md lists every class of Durable Object, and an erasure searches each", () => {
  const kinds = [...wrangler.matchAll(/"name": "([A-Z_]+)", "class_name"/g)].map(([, name = ""]) => name);
  expect(kinds.length).toBeGreaterThan(5);
  expect([...OBJECTS].sort()).toEqual(kinds.sort());
  expect(
    rowsOf(page, "object")
      .flatMap(([, binding]) => quoted(binding))
      .sort(),
  ).toEqual(kinds.sort());
});

/** Tables without a tenant of their own, and those that are deleted with an instance. */
const OTHERWISE = [
  "millrace_alerts",
  "millrace_approvals",
  "millrace_audit_opened",
  "millrace_counts",
  "millrace_inbox",
  "millrace_instances",
  "millrace_outbox",
  "millrace_sequences",
  "millrace_stated_events",
  "millrace_tallies",
  "millrace_tombstones",
  "millrace_waits",
];

it("every table is deleted with its tenant: by its key, with an instance, or as hashes without content", async () => {
  const { results } = await env.DB.prepare(
    `SELECT t.name AS "table", c.name AS "column" FROM sqlite_master t, pragma_table_xinfo(t.name) c
     WHERE t.type = 'table' AND t.name NOT GLOB '_cf_*' AND t.name NOT IN ('d1_migrations', 'sqlite_sequence') AND c.pk > 0`,
  ).all<Json>();
  const keys = Map.groupBy(results, ({ table }) => table as string);
  const removed: Record<string, readonly string[]> = { ...erasure.tenantTables, ...APP_TENANT_TABLES };
  expect([...keys.keys()].sort()).toEqual([...Object.keys(removed), ...OTHERWISE].sort());
  for (const [table, key] of Object.entries(removed)) {
    const own = keys.get(table)?.map(({ column }) => column) ?? [];
    expect([...key].sort(), table).toEqual(own.length === 1 ? own : own.filter((column) => column !== "tenant_id").sort());
  }
});
