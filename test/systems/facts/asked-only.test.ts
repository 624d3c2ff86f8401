import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { budgetOf } from "../../../src/systems/facts/derived/budgets.ts";
import { contactBookOf, resolveContacts } from "../../../src/systems/facts/derived/contact-books.ts";
import { confirmFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { callerWith, expectProblem, fresh } from "../../api/client.ts";
import { messageOf, recordedFact } from "./derived.ts";
import { ledger, outcome, state } from "./facts.ts";

/** An object's storage: the names of its tables, and whether its alarm is set. */
function leftBehind(stub: DurableObjectStub<undefined>): Promise<{ tables: string[]; alarm: number | null }> {
  return runInDurableObject(stub, async (_, { storage }) => {
    const tables = storage.sql.exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'",
    );
    return { tables: [...tables].map(({ name }) => name), alarm: await storage.getAlarm() };
  });
}

const NOTHING = { tables: [], alarm: null };

describe("An object that is only read stores nothing", () => {
  it("a ledger that is read, replayed, pruned, or queried for unknown facts stores nothing", async () => {
    const caller = await callerWith();
    const entity = fresh("account/");
    const stub = ledgerOf(env, caller.tenantId, entity);
    expectProblem(await caller.get(`/v1/ledgers/${encodeURIComponent(entity)}`), 404, "ledger_not_found");
    await stub.replay("projections");
    expect(await stub.prune(Date.now(), 10)).toBe(0);
    const stranger = recordedFact(caller.tenantId, "payout", "p1", { partner: "ada", amount_cents: 1 }, { entity });
    await confirmFacts(env, [await messageOf(stranger)]);
    expect(await leftBehind(stub as never)).toEqual(NOTHING);
    await state(caller, [outcome(entity)]);
    expect(await ledger(caller, entity)).toMatchObject({ first: 1, last: 1, kept: 1 });
    expect((await leftBehind(stub as never)).tables).toContain("facts");
  });

  it("a budget that is shown, requested without a limit, or asked to release an unknown hold stores nothing", async () => {
    const caller = await callerWith();
    const account = fresh("account");
    const path = `/v1/budgets/${account}`;
    const stub = budgetOf(env, caller.tenantId, account);
    expect((await caller.get(path)).body).toMatchObject({ limit_cents: null, spent_cents: 0, held_cents: 0, remaining_cents: 0 });
    const asked = await caller.post(`${path}/asks`, { amount_cents: 0 }, { "idempotency-key": "k" });
    expect(asked.body).toMatchObject({ granted: false, reason: "no_limit" });
    expect((await caller.call("DELETE", `${path}/holds/none`)).body).toMatchObject({ released: false, state: "unknown" });
    expect(await leftBehind(stub as never)).toEqual(NOTHING);
    await caller.call("PUT", path, { limit_cents: 5 });
    expect((await caller.post(`${path}/asks`, { amount_cents: 5 }, { "idempotency-key": "k" })).body).toMatchObject({ granted: true });
  });

  it("a contacts object that is queried for a contact's canonical id stores nothing", async () => {
    const { tenantId, get } = await callerWith();
    expect((await get("/v1/contacts/ann")).body).toEqual({ contact_id: "ann", canonical_id: "ann", merged: [], merged_count: 0 });
    expect(await resolveContacts(env, tenantId, ["ann", "bob"])).toEqual(
      new Map([
        ["ann", "ann"],
        ["bob", "bob"],
      ]),
    );
    expect(await leftBehind(contactBookOf(env, tenantId) as never)).toEqual(NOTHING);
  });
});
