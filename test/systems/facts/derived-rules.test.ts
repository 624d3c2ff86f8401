import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Caller, callerWith, expectProblem, fresh, type Json } from "../../api/client.ts";
import { deliver, factsOf, recordedFact, seedRules } from "./derived.ts";

const PATH = "/v1/qualification-rules";
const flat = (name: string, cents: number) => [{ name, when: [], charge: { cents }, payout: { cents: cents / 2 } }];
const outcome = { subtype: "sale", payload: { account: "a1", partner: "p1", value_cents: 12_345 } };

async function set(caller: Caller, expected_version: number, rules: unknown, more = {}) {
  return caller.call("PUT", PATH, { rules, expected_version, ...more });
}

describe("The rules", () => {
  it("the rules of a tenant without any rules have version 0, and decide nothing", async () => {
    const caller = await callerWith();
    expect((await caller.get(PATH)).body).toEqual({ version: 0, effective_at: null, created_at: null, who: null, rules: [] });
    expect((await caller.get(`${PATH}/versions`)).body).toEqual({ items: [], next_before: null });
    expect((await caller.post(`${PATH}/try`, { outcome })).body).toEqual({ version: null, rule: null, charge: null, payout: null });
  });

  it("changes of the rules and of a budget's limit are audited: each change, also a late one, is one row with its actor", async () => {
    const caller = await callerWith();
    await set(caller, 0, flat("one", 100));
    expectProblem(await set(caller, 0, flat("two", 200)), 409, "invalid_transition");
    await caller.call("PUT", "/v1/budgets/a1", { limit_cents: 500 });
    const { items } = (await caller.get("/v1/audit")).body;
    // Rows of one millisecond have no order.
    const byVerb = items.toSorted((a: Json, b: Json) => `${a.verb} ${a.result}`.localeCompare(`${b.verb} ${b.result}`));
    expect(byVerb).toMatchObject([
      { actor: "ada", verb: "limit", target: "a1", result: "applied", detail: { limit_cents: 500 } },
      { actor: "ada", verb: "rules", result: "applied", detail: { version: 1, rules: 1 } },
      { actor: "ada", verb: "rules", result: "no_change", detail: { version: 1, rules: 1 } },
    ]);
  });

  it("the rules have versions: the first applies from the beginning, a later one from a minute after its creation; all are kept", async () => {
    const caller = await callerWith();
    const before = Date.now();
    const first = await set(caller, 0, flat("one", 100));
    expect(first.body).toEqual({
      version: 1,
      effective_at: "1970-01-01T00:00:00.000Z",
      created_at: expect.any(String),
      who: "ada",
      rules: flat("one", 100),
    });
    const second = await set(caller, 1, flat("two", 200));
    expect(second.status).toBe(200);
    const ahead = Date.parse(second.body.effective_at) - before;
    expect(ahead).toBeGreaterThanOrEqual(60_000);
    expect(ahead).toBeLessThan(70_000);
    const chosen = "2030-01-01T00:00:00.000Z";
    expect((await set(caller, 2, flat("three", 300), { effective_at: chosen })).body).toMatchObject({ version: 3, effective_at: chosen });

    expect((await caller.get(PATH)).body).toMatchObject({ version: 3, rules: flat("three", 300) });
    expect((await caller.get(`${PATH}/versions/1`)).body).toEqual(first.body);
    expectProblem(await caller.get(`${PATH}/versions/4`), 404, "rules_not_found");
    const page = (await caller.get(`${PATH}/versions?limit=2`)).body;
    expect(page.items.map(({ version }: { version: number }) => version)).toEqual([3, 2]);
    const rest = (await caller.get(`${PATH}/versions?limit=2&before=${page.next_before}`)).body;
    expect(rest).toMatchObject({ items: [{ version: 1 }], next_before: null });
  });

  it("the rules are not overwritten by a caller without the newest version", async () => {
    const caller = await callerWith();
    await set(caller, 0, flat("one", 100));
    const late = await set(caller, 0, flat("mine", 100));
    expect(expectProblem(late, 409, "invalid_transition").detail).toContain("at version 1, not 0");
    expectProblem(await set(caller, 5, flat("ahead", 100)), 409, "invalid_transition");
    expect((await caller.get(PATH)).body).toMatchObject({ version: 1, rules: flat("one", 100) });
    const atOnce = await Promise.all(Array.from({ length: 10 }, (_, index) => set(caller, 1, flat(`of ${index}`, 100))));
    expect(atOnce.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(409)]);
    expect((await caller.get(PATH)).body).toMatchObject({ version: 2 });
  });

  it("rules that are sent again after a lost response return their existing version", async () => {
    const caller = await callerWith();
    const first = await set(caller, 0, flat("one", 100));
    expect((await set(caller, 0, flat("one", 100))).body).toEqual(first.body);
    const second = await set(caller, 1, flat("two", 100));
    expect((await set(caller, 1, flat("two", 100))).body).toEqual(second.body);
    expect((await caller.get(PATH)).body.version).toBe(2);
  });

  it("a version of the rules never takes effect in the past, nor within the clock tolerance", async () => {
    const caller = await callerWith();
    const in5Seconds = new Date(Date.now() + 5_000).toISOString();
    const ahead = { effective_at: "2999-01-01T00:00:00Z" };
    const { issues } = expectProblem(await set(caller, 0, flat("one", 100), ahead), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "effective_at", message: expect.stringContaining("from the beginning") }]);
    await set(caller, 0, flat("one", 100));
    for (const effective_at of ["2020-01-01T00:00:00Z", in5Seconds]) {
      const { issues } = expectProblem(await set(caller, 1, flat("two", 200), { effective_at }), 422, "invalid_payload");
      expect(issues).toMatchObject([{ path: "effective_at" }]);
    }
    expectProblem(await set(caller, 1, flat("two", 200), { effective_at: "tomorrow" }), 422, "invalid_payload");
    expect((await caller.get(PATH)).body.version).toBe(1);
  });

  it("the database refuses an UPDATE of the stored rules, also by hand", async () => {
    const caller = await callerWith();
    await set(caller, 0, flat("one", 100));
    await expect(
      env.DB.prepare("UPDATE qualification_rules SET rules = '[]' WHERE tenant_id = ?").bind(caller.tenantId).run(),
    ).rejects.toThrow("never changed");
    await expect(seedRules(caller.tenantId, 2, 5, [])).resolves.toBeUndefined();
    const past =
      "INSERT INTO qualification_rules (tenant_id, version, effective_at, rules, created_at, who) VALUES (?, 3, 1, '[]', 2, 'eve')";
    await expect(env.DB.prepare(past).bind(caller.tenantId).run()).rejects.toThrow("CHECK");
  });

  it("invalid rules are refused with each place, and nothing is stored", async () => {
    const caller = await callerWith();
    const wrong = [
      { name: "a", when: [{ field: "value", op: "is", value: 1 }], charge: { cents: 1.5 } },
      { name: "a", when: [{ field: "subtype", op: "like", value: 1 }], charge: {} },
    ];
    const { issues } = expectProblem(await set(caller, 0, wrong), 422, "invalid_payload");
    const paths = issues.map(({ path }: { path: string }) => path);
    for (const path of ["rules.0.when.0.field", "rules.0.charge.cents", "rules.1.when.0.op"]) expect(paths).toContain(path);
    expectProblem(await set(caller, 0, "none"), 422, "invalid_payload");
    expectProblem(await caller.call("PUT", PATH, { rules: [] }), 422, "invalid_payload");
    expectProblem(
      await caller.call("PUT", PATH, { rules: flat("big", 1), expected_version: 0, note: "x".repeat(70_000) }),
      413,
      "payload_too_large",
    );
    expect((await caller.get(PATH)).body.version).toBe(0);
  });

  it("rules can be tested before they are saved, also for another time; nothing is written", async () => {
    const caller = await callerWith();
    await seedRules(caller.tenantId, 1, 0, flat("one", 100));
    await seedRules(caller.tenantId, 2, Date.parse("2030-01-01T00:00:00Z"), [
      { name: "sales", when: [{ field: "subtype", op: "is", value: "sale" }], charge: { percent: 10, min: 500 }, payout: { percent: 7 } },
    ]);
    const tried = async (more = {}) => (await caller.post(`${PATH}/try`, { outcome, ...more })).body;
    expect(await tried()).toEqual({
      version: 1,
      rule: "one",
      charge: { account: "a1", amount_cents: 100 },
      payout: { partner: "p1", amount_cents: 50 },
    });
    expect(await tried({ at: "2030-01-01T00:00:00Z" })).toMatchObject({
      version: 2,
      rule: "sales",
      charge: { amount_cents: 1235 },
      payout: { amount_cents: 864 },
    });
    expect(await tried({ rules: [{ name: "draft", when: [], charge: { cents: 9 } }] })).toEqual({
      version: null,
      rule: "draft",
      charge: { account: "a1", amount_cents: 9 },
      payout: null,
    });
    expect(await tried({ at: "2030-01-01T00:00:00Z", outcome: { ...outcome, subtype: "lead" } })).toEqual({
      version: 2,
      rule: null,
      charge: null,
      payout: null,
    });
    expect(await factsOf(caller.tenantId, "account/a1")).toEqual([]);
    expectProblem(await caller.post(`${PATH}/try`, { outcome: { payload: { account: "a1" } } }), 422, "invalid_payload");
    expectProblem(
      await caller.post(`${PATH}/try`, { outcome: { payload: { account: "x".repeat(191), value_cents: 1 } } }),
      422,
      "invalid_payload",
    );
  });

  it("the rules apply to their own tenant only", async () => {
    const [mine, other] = [await callerWith(), await callerWith()];
    await set(mine, 0, flat("mine", 100));
    expect((await other.get(PATH)).body).toMatchObject({ version: 0, rules: [] });
    expectProblem(await other.get(`${PATH}/versions/1`), 404, "rules_not_found");
    await set(other, 0, flat("other", 2));
    const told = [mine, other].map(({ tenantId }) => recordedFact(tenantId, "outcome", "o", outcome.payload));
    expect(await deliver(told)).toEqual({ acked: 2, retried: 0 });
    expect(await factsOf(mine.tenantId, "account/a1")).toMatchObject([
      { payload: { amount_cents: 100, decided_by: { version: 1, rule: "mine" } } },
    ]);
    expect(await factsOf(other.tenantId, "account/a1")).toMatchObject([{ payload: { amount_cents: 2, decided_by: { rule: "other" } } }]);
  });

  it("the endpoints of the rules require the scope for each action", async () => {
    const reader = await callerWith(["read"]);
    expectProblem(await set(reader, 0, []), 403, "forbidden");
    expect((await reader.post(`${PATH}/try`, { outcome })).status).toBe(200);
    expectProblem(await (await callerWith(["operate"])).get(PATH), 403, "forbidden");
  });
});

describe("The version that applies", () => {
  const hour = 3_600_000;
  const charged = async (tenantId: string) =>
    Object.fromEntries(
      (await factsOf(tenantId, "account/a1")).map(({ payload }) => [(payload as { outcome_id: string }).outcome_id, payload]),
    );

  it("the version that applies is the newest in effect when the outcome was recorded, at every delivery, for any later changes", async () => {
    const tenantId = fresh("tenant");
    const start = Date.now() - 100 * hour;
    const at = (hours: number) => new Date(start + hours * hour).toISOString();
    await seedRules(tenantId, 1, 0, flat("v1", 100));
    const early = recordedFact(tenantId, "outcome", "early", outcome.payload, { recorded_at: at(1) });
    const exact = recordedFact(tenantId, "outcome", "exact", outcome.payload, { recorded_at: at(10) });
    await deliver([early]);
    // Version 3 takes effect before version 2 does, and 2 never applies after it: the newer version wins.
    await seedRules(tenantId, 2, start + 20 * hour, flat("v2", 200));
    await seedRules(tenantId, 3, start + 10 * hour, flat("v3", 300));
    const late = recordedFact(tenantId, "outcome", "late", outcome.payload, { recorded_at: at(30) });
    for (let time = 0; time < 3; time++) expect(await deliver([late, exact, early, early])).toEqual({ acked: 4, retried: 0 });
    expect(await charged(tenantId)).toMatchObject({
      early: { amount_cents: 100, decided_by: { version: 1, rule: "v1" } },
      exact: { amount_cents: 300, decided_by: { version: 3 } },
      late: { amount_cents: 300, decided_by: { version: 3 } },
    });
    expect(await factsOf(tenantId, "account/a1")).toHaveLength(3);
    expect(await factsOf(tenantId, "partner/p1")).toHaveLength(3);
  });

  it("the version that applies is found for an outcome that many newer versions follow", async () => {
    const tenantId = fresh("tenant");
    const start = Date.now() - 100 * hour;
    for (let version = 1; version <= 12; version++)
      await seedRules(tenantId, version, version === 1 ? 0 : start + version * hour, flat(`v${version}`, version * 2));
    const outcomes = Array.from({ length: 12 }, (_, index) =>
      recordedFact(tenantId, "outcome", `o${index + 1}`, outcome.payload, {
        recorded_at: new Date(start + (index + 1.5) * hour).toISOString(),
      }),
    );
    await deliver(outcomes);
    const found = await charged(tenantId);
    for (let version = 1; version <= 12; version++)
      expect(found[`o${version}`]).toMatchObject({ amount_cents: version * 2, decided_by: { version } });
  });
});
