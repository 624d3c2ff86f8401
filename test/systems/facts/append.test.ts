import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh } from "../../api/client.ts";
import { ledger, outcome, projectedUntil, sent, state } from "./facts.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";

describe("POST /v1/facts", () => {
  it("POST /v1/facts appends facts to their ledgers, in order, and they arrive in the projection with their trace and job", async () => {
    const caller = await callerWith();
    const [one, two] = [`account/${fresh()}`, `account/${fresh()}`];
    const facts = [outcome(one, { subtype: "lead" }), outcome(two), sent(one)];
    const results = await state(caller, facts, { correlation_id: "job 1" }, { traceparent: `00-${TRACE}-b7ad6b7169203331-01` });
    expect(results).toEqual([
      { status: 201, fact_id: facts[0]?.fact_id, entity: one, sequence: 1, duplicate: false },
      { status: 201, fact_id: facts[1]?.fact_id, entity: two, sequence: 1, duplicate: false },
      { status: 201, fact_id: facts[2]?.fact_id, entity: one, sequence: 2, duplicate: false },
    ]);
    const rows = await projectedUntil(caller.tenantId, 3);
    expect(rows).toHaveLength(3);
    expect(rows.find(({ fact_id }) => fact_id === facts[0]?.fact_id)).toMatchObject({
      tenant_id: caller.tenantId,
      entity: one,
      sequence: 1,
      type: "outcome",
      subtype: "lead",
      occurred_at: Date.parse("2026-10-01T09:30:00.123Z"),
      trace_id: TRACE,
      correlation_id: "job 1",
      causation_id: expect.stringMatching(/^request\//),
      payload: JSON.stringify(facts[0]?.payload),
    });
  });

  it("POST /v1/facts answers a repeated fact as a duplicate, also within one request, and keeps the first unchanged", async () => {
    const caller = await callerWith();
    const entity = fresh("account/");
    const fact = outcome(entity);
    expect(await state(caller, [fact, fact])).toMatchObject([
      { status: 201, duplicate: false, sequence: 1 },
      { status: 200, duplicate: true, sequence: 1 },
    ]);
    const before = await ledger(caller, entity);
    // The same instant and the same fields, written differently.
    const again = {
      ...fact,
      occurred_at: "2026-10-01T09:30:00.1230Z",
      payload: Object.fromEntries(Object.entries(fact.payload).reverse()),
    };
    expect(await state(caller, [again])).toMatchObject([{ status: 200, duplicate: true, sequence: 1 }]);
    expect((await ledger(caller, entity)).items).toEqual(before.items);
  });

  it("POST /v1/facts answers an invalid field with the correct form", async () => {
    const caller = await callerWith();
    const entity = fresh("account/");
    const results = await state(caller, [
      outcome(entity, { occurred_at: "2026-10-01T09:30:00+02:00" }),
      outcome(entity, { payload: { account: "a1", value_cents: 1.5 } }),
      outcome(entity, { payload: { account: "a1" } }),
      outcome(entity, { kind: "sale" }),
    ]);
    expect(results.map(({ problem }) => problem.issues)).toEqual([
      [{ path: "facts.0.occurred_at", message: "must be a time in UTC, such as 2026-10-01T09:30:00Z" }],
      [{ path: "facts.1.payload.value_cents", message: "must be a whole number" }],
      [{ path: "facts.2.payload.value_cents", message: "is missing: add it" }],
      [{ path: "facts.3.kind", message: "is not known here: remove it" }],
    ]);
  });

  it("POST /v1/facts refuses each invalid fact separately: a reused name, a malformed one, an unknown type", async () => {
    const caller = await callerWith();
    const entity = fresh("account/");
    const fact = outcome(entity);
    await state(caller, [fact]);
    const results = await state(caller, [
      { ...fact, payload: { account: "a1", value_cents: 1 } },
      outcome(entity, { payload: { value_cents: -1 } }),
      outcome(entity, { type: "outcom" }),
      { ...sent(entity), extra: 1 },
      "not a fact",
      outcome(entity, { fact_id: "a\u0000b" }),
      outcome(entity, { payload: { account: "a1", value_cents: 1, blob: "x".repeat(9000) } }),
      { ...outcome(entity), type: "charge", payload: { account: "a1", amount_cent: 5 } },
      outcome(entity),
    ]);
    expect(
      results.map(({ status, problem }) => [status, problem?.code, problem?.issues?.map(({ path }: { path: string }) => path)]),
    ).toEqual([
      [422, "idempotency_key_reused", ["facts.0.fact_id"]],
      [422, "invalid_payload", ["facts.1.payload.account", "facts.1.payload.value_cents"]],
      [422, "invalid_payload", ["facts.2.type"]],
      [422, "invalid_payload", ["facts.3.extra"]],
      [422, "invalid_payload", ["facts.4"]],
      [422, "invalid_payload", ["facts.5.fact_id"]],
      [422, "invalid_payload", ["facts.6.payload"]],
      [422, "invalid_payload", ["facts.7.payload.amount_cents", "facts.7.payload.amount_cent"]],
      [201, undefined, undefined],
    ]);
    expect(results[2].problem).toMatchObject({ did_you_mean: "outcome", detail: expect.stringContaining("contact_merged") });
    expect((await ledger(caller, entity)).last).toBe(2);
  });

  it("POST /v1/facts accepts 1 to 100 facts", async () => {
    const caller = await callerWith();
    const entity = fresh("account/");
    expectProblem(await caller.post("/v1/facts", { facts: [] }), 422, "invalid_payload");
    const facts = Array.from({ length: 101 }, () => sent(entity));
    expectProblem(await caller.post("/v1/facts", { facts }), 422, "invalid_payload");
    expect(await state(caller, facts.slice(1))).toHaveLength(100);
    expect(await projectedUntil(caller.tenantId, 100)).toHaveLength(100);
  });

  it("POST /v1/facts requires the scope enqueue, and a read requires the scope read", async () => {
    const reader = await callerWith(["read"]);
    expectProblem(await reader.post("/v1/facts", { facts: [sent("x")] }), 403, "forbidden");
    const writer = await callerWith(["enqueue"]);
    for (const path of ["/v1/facts", "/v1/ledgers/x", "/v1/projections"]) expectProblem(await writer.get(path), 403, "forbidden");
    expectProblem(await writer.post("/v1/projections/facts/rebuild", { request: "r" }), 403, "forbidden");
  });
});

it("a caller cannot append facts to the engine's own ledgers: a delivery cannot be forged", async () => {
  const caller = await callerWith();
  const entities = ["webhook/e1", "batch/b1", "queue/webhooks", fresh("webhooks/")];
  const results = await state(
    caller,
    entities.map((entity) => sent(entity)),
  );
  expect(results.map(({ status }) => status)).toEqual([422, 422, 422, 201]);
  expect(results[0].problem.issues).toMatchObject([{ path: "facts.0.entity", message: expect.stringContaining("webhook/") }]);
});

describe("GET /v1/facts", () => {
  it("GET /v1/facts lists the tenant's facts newest first, page by page, by entity, type, trace and correlation", async () => {
    const caller = await callerWith();
    const [one, two] = [fresh("account/"), fresh("account/")];
    await state(
      caller,
      Array.from({ length: 5 }, () => sent(one)),
      { correlation_id: "first" },
    );
    await state(caller, [outcome(two), sent(two)], { correlation_id: "second" }, { traceparent: `00-${TRACE}-b7ad6b7169203331-01` });
    await projectedUntil(caller.tenantId, 7);

    const all = (await caller.get("/v1/facts")).body.items;
    expect(all).toHaveLength(7);
    expect(all.map(({ recorded_at }: { recorded_at: string }) => recorded_at)).toEqual(
      all
        .map(({ recorded_at }: { recorded_at: string }) => recorded_at)
        .toSorted()
        .reverse(),
    );
    for (const query of [
      "",
      `entity=${encodeURIComponent(one)}&`,
      "correlation=first&",
      "type=webhook_sent&",
      `entity=${encodeURIComponent(one)}&type=webhook_sent&correlation=first&`,
    ]) {
      const whole = (await caller.get(`/v1/facts?${query}`)).body;
      expect(whole.next_cursor).toBeNull();
      const paged = [];
      for (let cursor = ""; ; ) {
        const { body } = await caller.get(`/v1/facts?${query}limit=2${cursor && `&cursor=${cursor}`}`);
        paged.push(...body.items);
        cursor = body.next_cursor;
        if (!cursor) break;
        expect(body.items).toHaveLength(2);
        for (const other of [`${cursor}A`, `${cursor}x`, `${cursor}==`, `${cursor}%00`, ` ${cursor}`])
          expect([other, (await caller.get(`/v1/facts?${query}cursor=${other}`)).status]).toEqual([other, 422]);
      }
      expect(paged).toEqual(whole.items);
    }
    const count = async (query: string) => (await caller.get(`/v1/facts?${query}`)).body.items.length;
    expect(await count(`entity=${encodeURIComponent(one)}`)).toBe(5);
    expect(await count("type=outcome")).toBe(1);
    expect(await count("type=payout")).toBe(0);
    expect(await count(`trace=${TRACE}`)).toBe(2);
    expect(await count(`trace=${TRACE}&correlation=first`)).toBe(0);
    expect(await count("correlation=second")).toBe(2);
    const oldest = all.at(-1);
    expect(await count(`before=${oldest.recorded_at}`)).toBe(0);
    const later = new Date(Date.parse(all[0].recorded_at) + 1).toISOString();
    expect(await count(`before=${later}&correlation=second`)).toBe(2);
    expect(await count(`before=${later}&entity=${encodeURIComponent(one)}&limit=3`)).toBe(3);
    expect(await count(`before=${oldest.recorded_at}&entity=${encodeURIComponent(one)}`)).toBe(0);
  });

  it("GET /v1/facts refuses an invalid cursor, type or trace", async () => {
    const caller = await callerWith();
    for (const query of ["cursor=nonsense", "cursor=W10", "type=outcom", "trace=abc", "unknown=1", "limit=0"])
      expectProblem(await caller.get(`/v1/facts?${query}`), 422, "invalid_payload");
  });
});

describe("GET /v1/ledgers/{entity}", () => {
  it("GET /v1/ledgers/{entity} shows a ledger from its object, page by page, with its unconfirmed facts", async () => {
    const caller = await callerWith();
    const entity = fresh("account/ü");
    const facts = [sent(entity), sent(entity), sent(entity)];
    await state(caller, facts);
    const path = `/v1/ledgers/${encodeURIComponent(entity)}`;
    const { body } = await caller.get(`${path}?limit=2`);
    expect(body).toMatchObject({ entity, first: 1, last: 3, kept: 3, next_after: 2 });
    expect(body.items[0]).toMatchObject({ ...facts[0], sequence: 1, subtype: null });
    expect((await caller.get(`${path}?after=2`)).body).toMatchObject({ next_after: null, items: [{ sequence: 3 }] });
    await projectedUntil(caller.tenantId, 3);
  });

  it("GET /v1/ledgers/{entity} hides another tenant's ledger and its facts", async () => {
    const caller = await callerWith();
    const entity = fresh("account/");
    await state(caller, [sent(entity)]);
    await projectedUntil(caller.tenantId, 1);
    const other = await callerWith();
    expectProblem(await other.get(`/v1/ledgers/${encodeURIComponent(entity)}`), 404, "ledger_not_found");
    expect((await other.get(`/v1/facts?entity=${encodeURIComponent(entity)}`)).body.items).toEqual([]);
    expect((await other.get("/v1/projections")).body.items).toMatchObject([
      { rows: 0, ledgers: 0, lag_ms: null, newest_projected_at: null },
    ]);
  });
});

it("a fact's time is stored in milliseconds: a more precise time is refused, and not rounded", async () => {
  const caller = await callerWith();
  const entity = fresh("account");
  const at = (occurred_at: string) => ({ ...sent(entity), fact_id: "same", occurred_at });
  const facts = ["123456Z", "123999Z", "1234Z", "123Z", "1230Z", "124Z"].map((digits) => at(`2026-10-01T09:30:00.${digits}`));
  const { results } = (await caller.post("/v1/facts", { facts })).body;
  expect(results.map(({ status }: { status: number }) => status)).toEqual([422, 422, 422, 201, 200, 422]);
  const [issue] = results[0].problem.issues;
  expect(issue).toEqual({ path: "facts.0.occurred_at", message: expect.stringContaining("at most three decimal digits") });
  expect(results[5].problem.code).toBe("idempotency_key_reused");
});
