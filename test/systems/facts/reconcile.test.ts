import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { factCheck } from "../../../src/systems/facts/reconcile.ts";
import { callerWith, fresh, type Json } from "../../api/client.ts";
import { projected, projectedUntil, sent, state } from "./facts.ts";

const run = (text: string, ...params: unknown[]) =>
  env.DB.prepare(text)
    .bind(...params)
    .run();

/** The scan of the app's keeper through one tenant's ledgers: all other checks are not due. */
async function walkFacts(tenantId: string, isOver: () => Promise<boolean>): Promise<void> {
  await runInDurableObject(keeperOf(env), async (keeper, { storage }) => {
    const own = keeper as unknown as { duties: object; round(): Promise<unknown> };
    const before = own.duties;
    own.duties = { ...before, checks: [factCheck] };
    try {
      for (let rounds = 0; rounds < 50 && !(await isOver()); rounds++) {
        const turns = (await storage.get<Record<string, object>>("reconcile")) ?? {};
        await storage.put("reconcile", { ...turns, facts: { dueAt: 0, from: JSON.stringify([tenantId, "", 0]) } });
        await own.round();
      }
    } finally {
      own.duties = before;
    }
  });
}

it("the reconciliation compares projection rows with their ledger, finds a missing and a surplus row, and repairs them as a rebuild does", async () => {
  const caller = await callerWith(["enqueue", "read"]);
  const { tenantId } = caller;
  const [entity, whole] = [fresh("account/a"), fresh("account/b")];
  await state(caller, [...Array.from({ length: 5 }, () => sent(entity)), sent(whole)]);
  await projectedUntil(tenantId, 6);
  // Facts recorded a moment ago may be in transit.
  await runInDurableObject(ledgerOf(env, tenantId, entity), (_, { storage }) =>
    storage.sql.exec("UPDATE facts SET body = json_set(body, '$.recorded_at', '2026-10-01T09:30:00.000Z')").toArray(),
  );
  await run("DELETE FROM facts WHERE tenant_id = ?1 AND entity = ?2 AND sequence = 2", tenantId, entity);
  await run(
    `INSERT INTO facts (tenant_id, entity, sequence, fact_id, recorded_at, body, projected_at)
     SELECT tenant_id, entity, 9, 'nobody''s', recorded_at, body, projected_at FROM facts WHERE tenant_id = ?1 AND entity = ?2 AND sequence = 3`,
    tenantId,
    entity,
  );
  const listed = async (which: string) => (await caller.get(`/v1/divergences?state=${which}`)).body;
  const all = (which: string) => async () => (await listed(which)).items.length === 2;
  await walkFacts(tenantId, all("suspected"));
  expect((await listed("suspected")).items.map(({ kind }: Json) => kind).sort()).toEqual(["fact_without_row", "row_without_fact"]);
  expect((await projected(tenantId, entity)).map(({ sequence }) => sequence)).toEqual([1, 3, 4, 5, 9]);

  const later = () => run("UPDATE millrace_divergences SET look_at = 1 WHERE tenant_id = ?1 AND look_at IS NOT NULL", tenantId);
  await later();
  await walkFacts(tenantId, all("repairing"));
  expect((await projected(tenantId, entity)).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5]);
  await later();
  await walkFacts(tenantId, all("repaired"));
  expect(await listed("repaired")).toMatchObject({ items: [{ repairs: 1 }, { repairs: 1 }], open: {} });
  expect(JSON.stringify(await listed("repaired"))).not.toContain(entity);
});

it("a finding of the reconciliation is hidden from other tenants; an observer of the deployment sees it without its owner", async () => {
  const [owner, stranger, observer] = [await callerWith(["read"]), await callerWith(["read"]), await callerWith(["observe"])];
  const kind = fresh("kind");
  await run(
    `INSERT INTO millrace_divergences (kind, what, tenant_id, found_by, place, says, state, first_at, seen_at, look_at)
     VALUES (?1, 'i', ?2, 'ours', 'secret place', 'One says so, the other not.', 'open', 1, 2, 9007199254740991)`,
    kind,
    owner.tenantId,
  );
  const path = `/v1/divergences?kind=${kind}`;
  const row = { kind, what: "i", detail: "One says so, the other not.", state: "open", times: 1, repairs: 0, ended_at: null };
  expect((await owner.get(path)).body).toMatchObject({ items: [row], open: { [kind]: 1 } });
  expect((await stranger.get(path)).body).toEqual({ items: [], open: {}, next_cursor: null });
  const seen = (await observer.get(path)).body;
  expect(seen).toMatchObject({ items: [row], open: { [kind]: 1 } });
  expect(JSON.stringify(seen)).not.toMatch(new RegExp(`${owner.tenantId}|secret`));
  expect((await (await callerWith(["enqueue", "operate"])).get(path)).status).toBe(403);
  await run("DELETE FROM millrace_divergences WHERE kind = ?1", kind);
});
