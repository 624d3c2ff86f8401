import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ledgerOf } from "../../src/objects/ledgers.ts";
import { callerWith, fresh, type Json, until } from "../api/client.ts";
import { batchIn, completed, problemsOf } from "./batch.ts";

const outcome = (id: string, entity: string, value: number) => ({
  fact_id: id,
  entity,
  type: "outcome",
  occurred_at: "2026-10-01T09:30:00Z",
  payload: { account: "a1", value_cents: value },
});
const jsonl = { type: "application/x-ndjson", dataset: "facts" };
const lines = (rows: object[]) => rows.map((row) => JSON.stringify(row)).join("\n");

it("facts go to their ledgers once: known ones are skipped, and a name that says something else is reported", async () => {
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
    { row: 451, problem: expect.stringContaining("says something else") },
    { row: 452, problem: expect.any(String) },
  ]);
});

it("an export of facts is what was imported, and imported again it is known", async () => {
  const caller = await callerWith();
  const facts = Array.from({ length: 20 }, (_, index) => outcome(`f${String(index).padStart(2, "0")}`, "contact/1", index));
  await completed(caller, lines(facts), jsonl);
  const projected = () => env.DB.prepare("SELECT count(*) AS n FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).first<number>("n");
  expect(await until(projected, (count) => count === 20)).toBe(20);

  for (const format of ["jsonl", "csv"] as const) {
    const id = fresh("b");
    await caller.post("/v1/batches", { operation: "export", dataset: "facts", batch_id: id, format });
    await batchIn(caller, id, "complete");
    const { body } = await caller.get(`/v1/batches/${id}/result`);
    if (format === "jsonl") {
      const rows = String(body)
        .split("\n")
        .filter(Boolean)
        .map((line): Json => JSON.parse(line));
      expect(rows).toEqual(facts.map((fact) => ({ ...fact, occurred_at: "2026-10-01T09:30:00.000Z" })));
    }
    const again = await completed(caller, body, { ...jsonl, type: format === "csv" ? "text/csv" : jsonl.type });
    expect(again.rows).toMatchObject({ done: 0, failed: 0, skipped: 20 });
  }
});
