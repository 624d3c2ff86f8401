import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { StatedFact } from "../../../src/messages/fact.ts";
import { facts } from "../../../src/systems/batches/facts.ts";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { state } from "../facts/facts.ts";
import { watched } from "../facts/watched.ts";
import { batchIn, completed, problemsOf } from "./batch.ts";

const outcome = (id: string, entity: string, value: number): StatedFact<"outcome"> => ({
  fact_id: id,
  entity,
  type: "outcome",
  occurred_at: "2026-10-01T09:30:00Z",
  payload: { account: "a1", value_cents: value },
});
const jsonl = { type: "application/x-ndjson", dataset: "facts" };
const lines = (rows: object[]) => rows.map((row) => JSON.stringify(row)).join("\n");

it("facts are appended to their ledgers once: known facts are skipped, and a name with other content is reported", async () => {
  const caller = await callerWith();
  const facts = Array.from({ length: 450 }, (_, index) => outcome(`f${index}`, `contact/${index % 3}`, index));
  const first = await completed(caller, lines(facts), jsonl);
  expect(first.rows).toMatchObject({ done: 450, failed: 0, skipped: 0 });
  const state = await ledgerOf(env, caller.tenantId, "contact/0").state();
  expect(state).toMatchObject({ kept: 150 });

  const again = await completed(
    caller,
    lines([...facts, outcome("f0", "contact/0", 999), { ...outcome("f1", "x", 1), type: "rumour" }]),
    jsonl,
  );
  expect(again.rows).toMatchObject({ done: 0, failed: 2, skipped: 450 });
  expect(await problemsOf(caller, again.batch_id)).toMatchObject([
    { row: 451, problem: expect.stringContaining("with other content") },
    { row: 452, problem: expect.any(String) },
  ]);
});

it("a fact in a ledger of the engine is refused as a problem of its row", async () => {
  const caller = await callerWith();
  const kept = { ...outcome("f1", "x", 1), entity: `webhook/${fresh()}` };
  const done = await completed(caller, lines([kept, outcome("f2", "contact/1", 1)]), jsonl);
  expect(done.rows).toMatchObject({ done: 1, failed: 1, skipped: 0 });
  expect(await problemsOf(caller, done.batch_id)).toMatchObject([
    { row: 1, problem: expect.stringContaining("entity: must be another ledger") },
  ]);
  expect(await ledgerOf(env, caller.tenantId, kept.entity).state()).toMatchObject({ last: 0 });
});

it("a fact that is nested too deeply for a message is refused as a problem of its row", async () => {
  const caller = await callerWith();
  const nested = (levels: number): object => ({ about: "x", more: JSON.parse(`${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`) });
  const deep = (levels: number) => ({ ...outcome(`f${levels}`, "order/1", 1), type: "reconciliation", payload: nested(levels) });
  const done = await completed(caller, lines([deep(60), deep(61), deep(62)]), jsonl);
  expect(done.rows).toMatchObject({ done: 2, failed: 1 });
  expect(await problemsOf(caller, done.batch_id)).toMatchObject([{ row: 3, problem: expect.stringContaining("nested deeper") }]);
  expect(await projected(caller, 2)).toBe(2);
});

const projected = (caller: Caller, count: number) =>
  until(
    () => env.DB.prepare("SELECT count(*) AS n FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).first<number>("n"),
    (found) => found === count,
  );

async function exported(caller: Caller, format: "jsonl" | "csv", more = {}): Promise<{ text: string; rows: Json[] }> {
  const id = fresh("b");
  await caller.post("/v1/batches", { operation: "export", dataset: "facts", batch_id: id, format, ...more });
  await batchIn(caller, id, "complete");
  const text = String((await caller.get(`/v1/batches/${id}/result`)).body);
  return { text, rows: format === "jsonl" ? rowsOf(text) : [] };
}

const rowsOf = (text: string): Json[] =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

it("an export of facts equals the import, ledger by ledger in order, and an import of it into another tenant gives the same export", async () => {
  const caller = await callerWith();
  // The order of the names differs from that of the places.
  const facts = Array.from({ length: 620 }, (_, index) => outcome(`f${(index * 7) % 620}`, `contact/${index % 2}`, index));
  facts[5] = { ...outcome("=1+1", "contact/1", 5), subtype: 'a "b"', payload: { account: "a1", value_cents: 5, note: "\u2028 é 😀 '\n" } };
  await completed(caller, lines(facts), jsonl);
  expect(await projected(caller, 620)).toBe(620);
  const inOrder = [0, 1].flatMap((entity) => facts.filter((_, index) => index % 2 === entity));
  const { rows } = await exported(caller, "jsonl");
  expect(rows).toEqual(inOrder.map((fact) => ({ ...fact, occurred_at: "2026-10-01T09:30:00.000Z" })));

  for (const format of ["jsonl", "csv"] as const) {
    const { text } = await exported(caller, format, { formulas: "keep" });
    const type = format === "csv" ? "text/csv" : jsonl.type;
    expect((await completed(caller, text, { ...jsonl, type })).rows).toMatchObject({ done: 0, failed: 0, skipped: 620 });
    const other = await callerWith();
    expect((await completed(other, text, { ...jsonl, type })).rows).toMatchObject({ done: 620, failed: 0, skipped: 0 });
    expect(await projected(other, 620)).toBe(620);
    expect((await exported(other, "jsonl")).rows).toEqual(rows);
  }
});

it("a fact with another notation of the same time is the same fact, for its ledger and for a reconciliation", async () => {
  const caller = await callerWith();
  const written = ["T09:30:00Z", "T09:30:00.5Z", "T09:30:00.123Z", "T09:30:00.123000Z"];
  const facts = written.map((time, index) => ({ ...outcome(`f${index}`, "contact/1", index), occurred_at: `2026-10-01${time}` }));
  // Published unchanged, by the function that does not round to milliseconds.
  await state(caller, facts);
  expect(await projected(caller, 4)).toBe(4);
  const { text, rows } = await exported(caller, "jsonl");
  expect(rows.map(({ occurred_at }) => occurred_at.slice(16))).toEqual([":00.000Z", ":00.500Z", ":00.123Z", ":00.123Z"]);
  for (const file of [text, lines(facts)]) {
    expect((await completed(caller, file, jsonl)).rows).toMatchObject({ done: 0, failed: 0, skipped: 4 });
    const { findings } = await completed(caller, file, { ...jsonl, operation: "reconcile" });
    // Only here: the outcome of the reconciliation before.
    expect(findings).toMatchObject({ same: 4, different: 0, only_there: 0 });
  }
  const later = facts.map((fact) => ({ ...fact, occurred_at: "2026-10-01T09:30:00.001Z" }));
  expect((await completed(caller, lines(later), jsonl)).rows).toMatchObject({ done: 0, failed: 4 });
});

it("a reconciliation of facts finds differences and facts on one side only, for any order of the file", async () => {
  const caller = await callerWith();
  const facts = Array.from({ length: 700 }, (_, index) => outcome(`f${index}`, `contact/${index % 3}`, index));
  await completed(caller, lines(facts), jsonl);
  expect(await projected(caller, 700)).toBe(700);
  const theirs = [...facts.slice(2), outcome("f10", "contact/0", 10), outcome("f0", "contact/7", 0)].toReversed();
  theirs[100] = { ...(theirs[100] as (typeof facts)[0]), payload: { account: "a1", value_cents: -0, subtotal: 1 } as never };
  const { batch_id: id, findings } = await completed(caller, lines(theirs), { ...jsonl, operation: "reconcile" });
  expect(findings).toEqual({ same: 697, different: 1, only_there: 2, only_here: 2 });
  const found = rowsOf(String((await caller.get(`/v1/batches/${id}/result`)).body));
  expect(found.map(({ finding, key }) => `${finding} ${key}`).toSorted()).toEqual(
    [
      'only_here ["contact/0","f0"]',
      'only_here ["contact/1","f1"]',
      'only_there ["contact/0","f10"]',
      'only_there ["contact/7","f0"]',
      `different ["${theirs[100]?.entity}","${theirs[100]?.fact_id}"]`,
    ].toSorted(),
  );
});

it("the ledgers return facts that the projection lacks, by their names and page by page", async () => {
  const caller = await callerWith();
  const rows = Array.from({ length: 600 }, (_, index) => outcome(`f${index}`, `contact/${index % 3}`, index));
  await completed(caller, lines(rows), jsonl);
  expect(await projected(caller, 600)).toBe(600);
  await env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).run();
  const { db, ran } = watched();
  const bindings = { ...env, DB: db };
  const wanted = rows.filter(({ entity }) => entity !== "contact/2").slice(0, 150) as StatedFact[];
  const found = await facts.ours(bindings, caller.tenantId, wanted.map(facts.keyOf));
  expect(new Set(found.map(facts.keyOf))).toEqual(new Set(wanted.map(facts.keyOf)));
  const asOf = Date.now();
  const { rows: first, next } = await facts.page(bindings, caller.tenantId, { after: null, asOf });
  const { rows: second, next: end } = await facts.page(bindings, caller.tenantId, { after: next, asOf });
  expect([first.length, second.length, end]).toEqual([500, 100, null]);
  // The database is only asked which ledgers exist: one row per page for each of them.
  expect(ran.map(({ plan }) => plan)).toEqual([1, 2].map(() => ["SEARCH ledgers USING PRIMARY KEY (tenant_id=? AND entity>?)"]));
  expect(Math.max(...ran.map(({ read }) => read))).toBeLessThanOrEqual(4);
});

it("a page of facts ends at its limit of bytes, for any number of rows", async () => {
  const caller = await callerWith();
  const note = "é".repeat(7000);
  const rows = Array.from({ length: 160 }, (_, index) => ({
    ...outcome(`f${index}`, "contact/1", index),
    payload: { account: "a1", value_cents: index, note },
  }));
  await completed(caller, lines(rows), jsonl);
  expect(await projected(caller, 160)).toBe(160);
  const pages: number[] = [];
  const seen: StatedFact[] = [];
  for (let after: string | null = null; pages.length < 10; ) {
    const page = await facts.page(env, caller.tenantId, { after, asOf: Date.now() });
    pages.push(page.rows.length);
    seen.push(...page.rows);
    after = page.next;
    if (after === null) break;
  }
  // 1 MiB, and the row that starts before its end.
  const [kept] = await ledgerOf(env, caller.tenantId, "contact/1").named(["f99"]);
  const bytes = new TextEncoder().encode(kept).length;
  expect(pages[0]).toBeGreaterThanOrEqual(Math.floor(1024 ** 2 / bytes));
  expect(pages[0]).toBeLessThanOrEqual(Math.ceil(1024 ** 2 / bytes) + 1);
  expect(pages.length).toBe(3);
  expect(seen.map(({ fact_id }) => fact_id)).toEqual(rows.map(({ fact_id }) => fact_id));
  expect((await exported(caller, "jsonl")).rows).toHaveLength(160);
});
