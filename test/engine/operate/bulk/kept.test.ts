import { expect, it } from "vitest";
import { retentionPass, rows } from "../../harness.ts";
import { lettersOfThreeCauses, theOperator } from "./bulk.ts";

const DAY_MS = 86_400_000;
const TABLES = ["millrace_bulk_actions", "millrace_bulk_lists", "millrace_bulk_items"];

it("a bulk action is deleted with its list and its items 90 days after its end; a younger one and the audit records of both remain", async () => {
  const operator = await theOperator();
  await lettersOfThreeCauses(operator.tenantId, [0, 4, 0]);
  const ids: string[] = [];
  for (const reason of ["invalid_payload", "exhausted"]) {
    const { body } = await operator.start({ verb: "skip", filter: { reason }, ramp: [] });
    await operator.over(body.id);
    ids.push(body.id);
  }
  const young = (await operator.start({ verb: "skip", ids: ["none"], stop_at_error_rate: 1 })).body;
  await operator.over(young.id);
  for (const [id, days] of [
    [ids[0], 91],
    [ids[1], 91],
    [young.id, 89],
  ] as const) {
    await rows("UPDATE millrace_bulk_actions SET ended_at = ?2 WHERE id = ?1", id, Date.now() - days * DAY_MS);
  }
  await retentionPass();
  const left = async (id: string) =>
    Promise.all(
      TABLES.map(
        async (table) =>
          (await rows(`SELECT 1 FROM ${table} WHERE ${table === "millrace_bulk_actions" ? "id" : "bulk_id"} = ?1`, id)).length,
      ),
    );
  expect(await Promise.all(ids.map(left))).toEqual([
    [0, 0, 0],
    [0, 0, 0],
  ]);
  expect(await left(young.id)).toEqual([1, 1, 1]);
  expect(await rows("SELECT 1 FROM millrace_actions WHERE tenant_id = ?1 AND verb = 'bulk'", operator.tenantId)).toHaveLength(3);
});
