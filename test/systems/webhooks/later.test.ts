import { env } from "cloudflare:workers";
import { dieAt } from "millrace/testing";
import { describe, expect, it } from "vitest";
import type { RecordedFact } from "../../../src/messages/fact.ts";
import { type Caller, callerWith, type Json, until } from "../../api/client.ts";
import { rowsRead } from "../../rows-read.ts";
import { endpoint, hookUrl, ledger, outcome, received, tell } from "./hook.ts";

const REASON = { reason: "it was off on Monday" };
const SINCE = { since: "2026-01-01T00:00:00Z" };

/** Disables an endpoint. Returns the function that enables it. */
async function off(caller: Caller, path: string) {
  const { url, version } = (await caller.get(path)).body;
  await caller.call("PUT", path, { version, url, fact_types: ["outcome"], enabled: false });
  return () => caller.post(`${path}/enable`, { version: version + 1 });
}

/** Appends outcomes and waits until the projection has them. */
async function outcomes(caller: Caller, count: number): Promise<string[]> {
  const names: string[] = [];
  for (let n = 0; n < count; n++) names.push((await outcome(caller.tenantId)).fact_id);
  const stored = () => caller.get("/v1/facts?type=outcome&limit=200");
  await until(stored, ({ body }) => names.every((name) => body.items.some(({ fact_id }: Json) => fact_id === name)));
  return names;
}

const ended = (caller: Caller, id: string) =>
  until(
    async () => (await caller.get(`/v1/bulk-actions/${id}`)).body as Json,
    ({ state }) => state !== "running",
  );

const named = async (hook: string, count: number) =>
  (await received(hook, count)).map(({ body }) => JSON.parse(body).data.fact_id as string);

describe("Facts that were recorded while an endpoint was disabled", () => {
  it("facts that were recorded while an endpoint was disabled are delivered later, each once, oldest first, and earlier delivered ones are not", async () => {
    const caller = await callerWith();
    const { hook, id, path } = await endpoint(caller);
    const before = await outcomes(caller, 1);
    await received(hook, 1);
    const switchOn = await off(caller, path);
    const missed = await outcomes(caller, 4);
    await outcome(caller.tenantId, { type: "payout", payload: { partner: "p", amount_cents: 1 } });
    const later = (more: object = {}) => caller.post(`${path}/deliveries`, { ...REASON, ...SINCE, rate_per_second: 50, ...more });
    expect((await later()).body).toMatchObject({ code: "invalid_transition", from: "disabled" });
    await switchOn();
    expect(await later({ dry_run: true })).toMatchObject({ status: 200, body: { matched: 4, stages: [1, 3] } });
    expect((await later({ until: SINCE.since, dry_run: true })).body).toMatchObject({ matched: 0 });
    const { status, body, headers } = await later();
    expect({ status, ...body }).toMatchObject({ status: 202, matched: 4 });
    expect(headers.get("location")).toBe(`/v1/bulk-actions/${body.bulk_action}`);
    expect(await ended(caller, body.bulk_action)).toMatchObject({ state: "complete", verb: "deliver", done: 4, skipped: 0, failed: 0 });

    const names = await named(hook, 5);
    expect([names.slice(0, 2), names.toSorted()]).toEqual([[before[0], missed[0]], [...before, ...missed].toSorted()]);
    const requests = await received(hook);
    expect(requests.every(({ verified }) => verified[0])).toBe(true);
    const { items } = (await caller.get(`${path}/deliveries?state=sent`)).body;
    expect(items.map((one: Json) => one.id).toSorted()).toEqual(requests.map((one) => one.id).toSorted());
    const facts = await ledger(caller.tenantId, id, 10);
    const count = (type: string) => facts.filter((fact: RecordedFact) => fact.type === type).length;
    expect([count("webhook_triggered"), count("webhook_sent")]).toEqual([5, 5]);
    const audit = (await caller.get("/v1/audit?limit=50")).body.items.filter(({ verb }: Json) => verb === "deliver");
    expect(audit).toHaveLength(4);
    expect(audit[0]).toMatchObject({ target: id, reason: REASON.reason, result: "applied", detail: { bulk: body.bulk_action } });

    // No delivery is pending any more, and the next fact is delivered as usual.
    expect((await later()).body).toMatchObject({ matched: 0 });
    const [next] = await outcomes(caller, 1);
    expect((await named(hook, 6)).at(-1)).toBe(next);
  });

  it("a later delivery includes facts whose delivery was skipped, under the same id, and leaves failed ones to their instances", async () => {
    const caller = await callerWith();
    const { hook, path } = await endpoint(caller);
    await outcomes(caller, 2);
    const [first, second] = await received(hook, 2);
    await until(
      async () => (await caller.get(`${path}/deliveries?state=sent`)).body.items as Json[],
      (found) => found.length === 2,
    );
    const becomes = (id: string | undefined, state: string) =>
      env.DB.prepare("UPDATE webhook_deliveries SET state = ?2, sent_at = NULL WHERE id = ?1").bind(id, state).run();
    await becomes(first?.id, "skipped");
    await becomes(second?.id, "failed");
    const { body } = await caller.post(`${path}/deliveries`, { ...REASON, ...SINCE });
    expect(body).toMatchObject({ matched: 1 });
    expect(await ended(caller, body.bulk_action)).toMatchObject({ state: "complete", done: 1 });
    expect((await received(hook, 3))[2]).toMatchObject({ id: first?.id, body: first?.body });
  });

  it.each([
    { point: "A02 accept committed, not answered", ofBulk: false },
    { point: "B01 one item changed, chunk not over", ofBulk: true },
    { point: "B02 items changed, chunk not recorded", ofBulk: true },
  ] as const)(
    "facts of a disabled endpoint are delivered once, and their matches are recorded, through a crash at $point",
    async ({ point, ofBulk }) => {
      const caller = await callerWith();
      const { hook, id, path } = await endpoint(caller);
      const switchOn = await off(caller, path);
      const missed = await outcomes(caller, 8);
      await switchOn();
      const asked = { ...REASON, ...SINCE, rate_per_second: 5 };
      const { body } = await caller.post(`${path}/deliveries`, asked);
      const death = dieAt(point, ofBulk ? [body.bulk_action] : undefined);
      expect(await ended(caller, body.bulk_action)).toMatchObject({ state: "complete", done: 8, skipped: 0, failed: 0 });
      expect(death.died()).toBe(true);
      expect((await named(hook, 8)).toSorted()).toEqual(missed.toSorted());
      const facts = await ledger(caller.tenantId, id, 16);
      expect(facts.filter(({ type }) => type === "webhook_triggered")).toHaveLength(8);
    },
  );

  it("facts are not delivered again after retention has removed their delivery, sent or not", async () => {
    const caller = await callerWith();
    const { hook, id, path, delivery } = await endpoint(caller);
    await outcomes(caller, 1);
    const sent = await delivery("sent");
    await env.DB.prepare("DELETE FROM webhook_deliveries WHERE endpoint_id = ?1").bind(id).run();
    const { body } = await caller.post(`${path}/deliveries`, { ...REASON, ...SINCE });
    expect(await ended(caller, body.bulk_action)).toMatchObject({ state: "complete", done: 0, skipped: 1, failed: 0 });
    const { items } = (await caller.get(`/v1/bulk-actions/${body.bulk_action}/items`)).body;
    expect(items).toMatchObject([{ why: expect.stringContaining("whether it was sent is unknown") }]);
    expect((await caller.get(`${path}/deliveries`)).body.items).toEqual([]);
    expect((await received(hook)).map((one) => one.id)).toEqual([sent.id]);
  });

  it("facts of a disabled endpoint are found without reading the deliveries from before their period", async () => {
    const caller = await callerWith();
    const { hook, id, path } = await endpoint(caller);
    await env.DB.prepare(
      `WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < 2000)
       INSERT INTO webhook_deliveries (id, tenant_id, endpoint_id, config_version, entity, fact_id, fact_type, state, matched_at)
       SELECT lower(hex(randomblob(16))), ?1, ?2, 1, 'cart/1', 'old-' || at, 'outcome', 'sent', at FROM n`,
    )
      .bind(caller.tenantId, id)
      .run();
    await outcomes(caller, 1);
    await received(hook, 1);
    const count = () => caller.post(`${path}/deliveries`, { ...REASON, ...SINCE, dry_run: true });
    const { read, answer } = await rowsRead(count);
    expect(answer.body).toMatchObject({ matched: 0 });
    expect(read).toBeLessThan(500);
  });

  it("a later delivery of facts is refused for another tenant's endpoint, and for a token without the scope", async () => {
    const caller = await callerWith();
    const { path } = await endpoint(caller);
    const asked = { ...REASON, ...SINCE };
    expect((await (await callerWith()).post(`${path}/deliveries`, asked)).body.code).toBe("webhook_not_found");
    expect((await (await callerWith(["read"], caller.tenantId)).post(`${path}/deliveries`, asked)).status).toBe(403);
    expect((await caller.post("/v1/bulk-actions", { ...REASON, verb: "deliver", ids: ["x"], dry_run: true })).body.sample).toMatchObject([
      { refused: expect.stringContaining("use a filter") },
    ]);
  });
});

describe("A new endpoint", () => {
  it("a new endpoint gets the facts of the last days on request, once for any number of requests with one key", async () => {
    const caller = await callerWith();
    const missed = await outcomes(caller, 3);
    const hook = "backfilled";
    const asked = { url: hookUrl(hook), fact_types: ["outcome"], backfill_days: 7 };
    const create = () => caller.post("/v1/webhooks", asked, { "idempotency-key": "first" });
    const { status, body } = await create();
    expect({ status, backfill: body.backfill }).toMatchObject({ status: 201, backfill: { matched: 3, refused: null } });
    await tell(hook, { secrets: [body.secret] });
    expect((await create()).body.backfill).toEqual(body.backfill);
    expect(await ended(caller, body.backfill.bulk_action)).toMatchObject({ state: "complete", done: 3 });
    expect((await named(hook, 3)).toSorted()).toEqual(missed.toSorted());
    const off = { ...asked, enabled: false };
    expect((await caller.post("/v1/webhooks", off)).body.issues).toMatchObject([{ path: "backfill_days" }]);
  });
});
