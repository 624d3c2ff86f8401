import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type Caller, callerWith, type Json, reaches, until } from "../../api/client.ts";
import { seedLetter } from "../../api/seed.ts";
import { endpoint, hurried, ledger, outcome, received, tell } from "./hook.ts";

const REASON = { reason: "the shop has lost it" };

/** An endpoint and its one delivery, which its receiver has accepted. */
async function sent(caller: Caller) {
  const one = await endpoint(caller);
  await outcome(caller.tenantId);
  const { id } = await one.delivery("sent");
  await reaches(caller, id, "complete");
  return { ...one, delivered: id as string, again: `${one.path}/deliveries/${id}/redeliver` };
}

/** Disables an endpoint, so that repeated deliveries wait. Returns the function that enables it. */
async function off(caller: Caller, path: string) {
  const { url, version } = (await caller.get(path)).body;
  await caller.call("PUT", path, { version, url, fact_types: ["outcome"], enabled: false });
  return () => caller.post(`${path}/enable`, { version: version + 1 });
}

/** An endpoint with deliveries that ended in a state, as its log lists them. */
async function several(caller: Caller, state: string, count: number) {
  const one = await endpoint(caller);
  for (let n = 0; n < count; n++) await outcome(caller.tenantId);
  const items = async () => (await caller.get(`${one.path}/deliveries?state=sent`)).body.items as Json[];
  const ids = (await until(items, (found) => found.length === count)).map(({ id }) => id as string).toReversed();
  await env.DB.prepare("UPDATE webhook_deliveries SET state = ?2, sent_at = iif(?2 = 'sent', sent_at, NULL) WHERE endpoint_id = ?1")
    .bind(one.id, state)
    .run();
  return { ...one, ids, all: `${one.path}/redeliver`, items };
}

/**
 * Waits until each of two deliveries was accepted once more. An attempt with a lost response is repeated, so a delivery may have one more
 * attempt.
 */
const sentAgain = (items: () => Promise<Json[]>) => until(items, (found) => found.length === 2 && found.every(({ tried }) => tried >= 2));

/** The number of instances of a tenant's deliveries. */
const made = async (caller: Caller) => (await caller.get("/v1/instances?workflow=deliver-webhook")).body.items.length;

/** The ids that a receiver got more than once. */
async function tookOften(hook: string): Promise<string[]> {
  const sent = Map.groupBy(await received(hook), ({ id }) => id);
  return [...sent].flatMap(([id, all]) => (all.length > 1 ? [id] : [])).toSorted();
}

/** Simulates that the command of an instance died before it started. Returns its dead letter. */
async function deadLetterOf({ tenantId }: Caller, instance: string): Promise<string> {
  const row = await env.DB.prepare("UPDATE millrace_instances SET status = 'dead', check_at = NULL WHERE id = ?1 RETURNING envelope")
    .bind(instance)
    .first();
  const id = await seedLetter(tenantId, { queue: "webhooks", body: JSON.parse(String(row?.envelope)) });
  await env.DB.prepare("UPDATE millrace_dead_letters SET instance_id = ?2 WHERE id = ?1").bind(id, instance).run();
  return id;
}

describe("A sent delivery", () => {
  it("a sent delivery is sent again under its own id with its own body, and the ledger has it once more", async () => {
    const caller = await callerWith();
    const { hook, id, delivered, again, delivery } = await sent(caller);
    const asked = await caller.post(again, REASON);
    expect(asked).toMatchObject({ status: 202, body: { delivery_id: delivered } });
    expect(asked.body.instance_id).not.toBe(delivered);
    const [first, second] = await received(hook, 2);
    expect(second).toMatchObject({ id: delivered, body: first?.body, verified: [true] });
    await reaches(caller, asked.body.instance_id, "complete");
    expect(await delivery("sent")).toMatchObject({ id: delivered, tried: 2, attempts: [{ attempt: 1 }, { attempt: 2 }] });
    const types = (await ledger(caller.tenantId, id, 3)).map(({ type }) => type);
    expect(types).toEqual(["webhook_triggered", "webhook_sent", "webhook_sent"]);
    const audit = (await caller.get("/v1/audit")).body.items;
    expect(audit[0]).toMatchObject({ verb: "redeliver", target: id, reason: REASON.reason, result: "applied" });
  });

  it("a sent delivery is sent again once for any number of requests with one key, and once more for another key", async () => {
    const caller = await callerWith();
    const { hook, again, delivery } = await sent(caller);
    const marks: (string | null)[] = [];
    const ask = async (key: string) => {
      const { body, headers } = await caller.post(again, REASON, { "idempotency-key": key });
      marks.push(headers.get("idempotency-replayed"));
      return body.instance_id;
    };
    const first = await ask("monday");
    expect(await ask("monday")).toBe(first);
    await reaches(caller, first, "complete");
    expect(await ask("monday")).toBe(first);
    const other = await ask("tuesday");
    expect(other).not.toBe(first);
    await reaches(caller, other, "complete");
    expect(await ask("monday")).toBe(first);
    expect(marks).toEqual([null, "true", "true", null, "true"]);
    expect((await delivery("sent")).tried).toBe(3);
    expect(await received(hook)).toHaveLength(3);
    const audit = (await caller.get("/v1/audit")).body.items.filter(({ verb }: Json) => verb === "redeliver");
    expect(audit).toHaveLength(2);
  });

  it("a sent delivery is sent again by one of several concurrent requests, and the others are marked as repeated", async () => {
    const caller = await callerWith();
    const { hook, path, again, delivery } = await sent(caller);
    const switchOn = await off(caller, path);
    const ask = (key: string) => caller.post(again, REASON, { "idempotency-key": key });
    const keys = ["a", "b", "c", "d"];
    const answers = await Promise.all(keys.map(ask));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 409, 409, 409]);
    const first = answers.findIndex(({ status }) => status === 202);
    await switchOn();
    await reaches(caller, answers[first]?.body.instance_id, "complete");
    for (const key of keys) await reaches(caller, (await ask(key)).body.instance_id, "complete");
    const { state, tried, attempts } = await delivery("sent");
    expect({ state, tried, lines: attempts.length }).toEqual({ state: "sent", tried: 5, lines: 5 });
    expect(await received(hook)).toHaveLength(5);
  });

  it("a delivery that fails when it is sent again is retried as the instance that its log names", async () => {
    await using _ = await hurried();
    const caller = await callerWith();
    const { hook, id, path, delivered, again, delivery } = await sent(caller);
    expect(await delivery("sent")).toMatchObject({ instance_id: delivered, redelivery: null });
    await tell(hook, { treatments: [{ status: 500, times: 6 }] });
    const { instance_id } = (await caller.post(again, REASON)).body;
    const listed = async (query: string) => (await caller.get(`${path}/deliveries?${query}`)).body.items as Json[];
    await until(
      () => listed("redelivery=failed"),
      (found) => found.length > 0,
    );
    // The delivery was sent once, and keeps that state in each list.
    expect(await delivery("sent")).toMatchObject({ id: delivered, instance_id, redelivery: "failed", tried: 7 });
    expect(await listed("state=sent")).toMatchObject([{ id: delivered, redelivery: "failed" }]);
    expect([await listed("state=failed"), await listed("redelivery=sent")]).toEqual([[], []]);
    const types = (await ledger(caller.tenantId, id, 3)).map(({ type }) => type);
    expect(types).toEqual(["webhook_triggered", "webhook_sent", "webhook_failed"]);
    const retry = `/v1/instances/${instance_id}/retry`;
    expect((await caller.post(again, REASON)).body.detail).toContain(retry);
    await reaches(caller, instance_id, "errored");
    expect((await caller.post(retry, REASON)).status).toBe(202);
    await reaches(caller, instance_id, "complete");
    expect(await delivery("sent")).toMatchObject({ id: delivered, redelivery: "sent", tried: 8 });
  });

  it("a redelivery to a disabled endpoint waits until the endpoint is enabled", async () => {
    const caller = await callerWith();
    const { hook, path, again, delivery } = await sent(caller);
    const switchOn = await off(caller, path);
    const { body } = await caller.post(again, REASON);
    await reaches(caller, body.instance_id, "waiting");
    await switchOn();
    await reaches(caller, body.instance_id, "complete");
    expect(await delivery("sent")).toMatchObject({ tried: 2 });
    expect(await received(hook)).toHaveLength(2);
  });

  it("a sent delivery is sent again unchanged, at any size", async () => {
    const caller = await callerWith();
    const { hook, path, delivery } = await endpoint(caller);
    await outcome(caller.tenantId, { payload: { account: "a1", value_cents: 1, note: "🧾 ünï ".repeat(900) } });
    const { id } = await delivery("sent");
    await caller.post(`${path}/deliveries/${id}/redeliver`, REASON);
    const [first, second] = await received(hook, 2);
    expect(second?.body).toBe(first?.body);
  });
});

describe("A delivery", () => {
  it("a delivery that was answered with 410 is sent again once the endpoint is enabled", async () => {
    const caller = await callerWith();
    const { hook, path, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ status: 410, times: 1 }] });
    await outcome(caller.tenantId);
    const { id } = await delivery("gone");
    await caller.post(`${path}/enable`, { version: 2 });
    expect((await caller.post(`${path}/deliveries/${id}/redeliver`, REASON)).status).toBe(202);
    expect(await delivery("sent")).toMatchObject({ id, tried: 2 });
  });

  it("a delivery that was skipped while it waited is sent again by its new instance only, although the old instance is still waiting", async () => {
    const caller = await callerWith();
    const { hook, path, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ status: 429, headers: { "retry-after": "1" }, times: 1 }] });
    await outcome(caller.tenantId);
    await received(hook, 1);
    const switchOn = await off(caller, path);
    const { id } = await delivery("pending");
    await reaches(caller, id, "waiting");
    await env.DB.prepare("UPDATE webhook_deliveries SET state = 'skipped' WHERE id = ?1").bind(id).run();
    const { instance_id } = (await caller.post(`${path}/deliveries/${id}/redeliver`, REASON)).body;
    await reaches(caller, instance_id, "waiting");
    await switchOn();
    await Promise.all([reaches(caller, id, "complete"), reaches(caller, instance_id, "complete")]);
    expect(await delivery("sent")).toMatchObject({ id, instance_id, tried: 2 });
    expect(await received(hook)).toHaveLength(2);
  });

  it("a delivery is skipped with the dead letter of its command, and can be sent again", async () => {
    const caller = await callerWith();
    const { hook, path, delivered, again, delivery } = await sent(caller);
    const switchOn = await off(caller, path);
    const { instance_id } = (await caller.post(again, REASON)).body;
    await reaches(caller, instance_id, "waiting");
    const letter = await deadLetterOf(caller, instance_id);
    expect(await delivery("sent")).toMatchObject({ instance_id, redelivery: "pending" });
    expect((await caller.post(again, REASON)).body).toMatchObject({ code: "invalid_transition", from: "pending" });

    expect((await caller.post(`/v1/dead-letters/${letter}/skip`, REASON)).body).toMatchObject({ skipped: true });
    expect(await delivery("sent")).toMatchObject({ id: delivered, instance_id, redelivery: "skipped", tried: 1 });
    const listed = async (state: string) => (await caller.get(`${path}/deliveries?redelivery=${state}`)).body.items;
    expect([await listed("pending"), await listed("skipped")]).toMatchObject([[], [{ id: delivered }]]);
    expect((await caller.post(`${path}/redeliver`, { ...REASON, state: "skipped" })).body).toEqual({ redelivered: 1, more: false });
    expect(await delivery("sent")).toMatchObject({ redelivery: "pending", instance_id: expect.not.stringMatching(instance_id) });
    await switchOn();
    await received(hook, 2);
    await until(
      () => listed("sent"),
      (found) => found.length > 0,
    );
    expect(await delivery("sent")).toMatchObject({ id: delivered, tried: 2 });
  });

  it("a failed delivery is not sent again: its instance is retried", async () => {
    await using _ = await hurried();
    const caller = await callerWith();
    const { hook, path, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ status: 500, times: 6 }] });
    await outcome(caller.tenantId);
    const { id } = await delivery("failed");
    const refused = await caller.post(`${path}/deliveries/${id}/redeliver`, REASON);
    expect(refused).toMatchObject({
      status: 409,
      body: { code: "invalid_transition", detail: expect.stringContaining(`/v1/instances/${id}/retry`) },
    });
  });

  it("a redelivery is refused for a deleted endpoint, for another tenant's endpoint, and for a token without the scope", async () => {
    const caller = await callerWith();
    const { path, again } = await sent(caller);
    const stranger = await callerWith();
    expect((await stranger.post(again, REASON)).body.code).toBe("webhook_not_found");
    const own = await sent(stranger);
    const strange = again.replace(path, own.path);
    expect((await stranger.post(strange, REASON)).body.code).toBe("delivery_not_found");
    expect((await (await callerWith(["read"])).post(again, REASON)).status).toBe(403);
    await caller.call("DELETE", path);
    expect((await caller.post(again, REASON)).body).toMatchObject({ code: "invalid_transition", from: "deleted" });
  });
});

describe("Many deliveries", () => {
  it("deliveries of one state and period are sent again, each once, and no others", async () => {
    const caller = await callerWith();
    const { hook, ids, all, items, path } = await several(caller, "skipped", 4);
    const met = async (id: string | undefined) => (await caller.get(`${path}/deliveries/${id}`)).body.matched_at;
    await env.DB.prepare("UPDATE webhook_deliveries SET matched_at = matched_at - 86400000 WHERE id = ?1").bind(ids[0]).run();
    await env.DB.prepare("UPDATE webhook_deliveries SET state = 'gone' WHERE id = ?1").bind(ids[1]).run();
    const asked = await caller.post(all, { ...REASON, state: "skipped", since: await met(ids[1]) });
    expect(asked).toMatchObject({ status: 202, body: { redelivered: 2, more: false } });
    await until(items, (found) => found.length === 2);
    const again = (await received(hook, 6)).slice(4).map(({ id }) => id);
    expect(again.toSorted()).toEqual([ids[2], ids[3]].toSorted());
    expect((await caller.post(all, { ...REASON, state: "skipped", until: await met(ids[1]) })).body).toEqual({
      redelivered: 1,
      more: false,
    });
  });

  it("a repeated request for redeliveries under one key sends nothing again, although the deliveries have been sent again since the first request", async () => {
    const caller = await callerWith();
    const { hook, ids, all, items } = await several(caller, "sent", 2);
    const ask = async (key: string, state = "sent") => {
      const { body, headers } = await caller.post(all, { ...REASON, state }, { "idempotency-key": key });
      return { ...body, header: headers.get("idempotency-replayed") };
    };
    expect(await ask("night", "gone")).toEqual({ redelivered: 0, more: false, header: null });
    expect(await ask("night")).toEqual({ redelivered: 2, more: false, header: null });
    await sentAgain(items);
    expect(await ask("night")).toEqual({ redelivered: 0, more: false, header: "true" });
    expect(await ask("day", "gone")).toEqual({ redelivered: 0, more: false, header: null });
    expect([await made(caller), await tookOften(hook)]).toEqual([4, ids.toSorted()]);
  });

  it("each of many deliveries is sent again by one of several concurrent requests, and counted by it", async () => {
    const caller = await callerWith();
    const { hook, ids, path, all, items } = await several(caller, "sent", 2);
    const switchOn = await off(caller, path);
    const ask = async (key: string) => (await caller.post(all, { ...REASON, state: "sent" }, { "idempotency-key": key })).body.redelivered;
    expect((await Promise.all(["a", "b", "c"].map(ask))).toSorted()).toEqual([0, 0, 2]);
    await switchOn();
    await sentAgain(items);
    expect([await made(caller), await tookOften(hook)]).toEqual([4, ids.toSorted()]);
  });
});
