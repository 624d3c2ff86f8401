import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import page from "../../../docs/reconciliation.md?raw";
import { engineChecks } from "../../../packages/millrace/src/reconcile/walk.ts";
import { app } from "../../../src/catalog.ts";
import { checks } from "../../../src/systems/checks.ts";
import { callerWith } from "../../api/client.ts";
import { rowsOf } from "../markdown.ts";
import { followDocument } from "./follow.ts";

const ALL = [...engineChecks(app), ...checks];
const kinds = ALL.flatMap((check) => Object.entries(check.kinds));

it("docs/reconciliation.md lists each kind of disagreement once, and marks each as repaired or counted", () => {
  const told = rowsOf(page, "disagreement").map(([kind = "", , done = ""]) => [kind.replaceAll("`", ""), done.split(":")[0]]);
  expect(told.toSorted()).toEqual(kinds.map(([kind, { fix }]) => [kind, fix ? "repaired" : "counted"]).toSorted());
  expect(new Set(kinds.map(([kind]) => kind)).size).toBe(kinds.length);
  expect(new Set(ALL.map(({ name }) => name)).size).toBe(ALL.length);
});

it("the commands of docs/reconciliation.md print the output under them", async () => {
  const { tenantId, token } = await callerWith(["read"]);
  await env.DB.prepare(
    `INSERT INTO millrace_divergences (kind, what, tenant_id, found_by, place, says, state, first_at, seen_at, times, look_at)
     VALUES ('beside_tombstone', ?1, ?1, 'none', '', ?2, 'open', 1, 2, 3, 9007199254740991)`,
  )
    .bind(tenantId, "The row of publish-article says complete, and its tombstone says that it was removed.")
    .run();
  expect(await followDocument(page, { given: { AUTH: `Authorization: Bearer ${token}` } })).toBe(2);
  await env.DB.prepare("DELETE FROM millrace_divergences WHERE tenant_id = ?1").bind(tenantId).run();
});
