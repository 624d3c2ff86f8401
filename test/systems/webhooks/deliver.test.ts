import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { StatedFact } from "../../../src/messages/fact.ts";
import worker from "../../../src/worker.ts";
import { type Caller, callerWith, type Json, reaches, until } from "../../api/client.ts";
import { envelopeFor } from "../../api/seed.ts";
import { endpoint, factsOf, ledger, outcome, received, tell } from "./hook.ts";

describe("A fact", () => {
  it.concurrent("a fact is sent once and signed to the endpoint that subscribed to its type, and the ledger has the delivery", async () => {
    const caller = await callerWith();
    const { hook, id, delivery } = await endpoint(caller);
    const deaf = await endpoint(caller, { fact_types: ["payout"] });
    const fact = await outcome(caller.tenantId);
    const sent = await delivery("sent");
    const [request, ...more] = await received(hook, 1);
    expect(more).toEqual([]);
    expect(request).toMatchObject({ id: sent.id, verified: [true] });
    expect(JSON.parse(request?.body ?? "")).toMatchObject({
      type: "outcome",
      timestamp: fact.occurred_at,
      data: { fact_id: fact.fact_id, entity: fact.entity, sequence: 1, payload: fact.payload },
    });
    expect(sent).toMatchObject({ config_version: 1, fact_id: fact.fact_id, fact_type: "outcome", tried: 1 });
    expect(sent.attempts).toMatchObject([{ attempt: 1, version: 1, status: 204, answer: "", error: null }]);
    await reaches(caller, sent.id, "complete");
    const facts = await ledger(caller.tenantId, id, 2);
    expect(facts).toMatchObject([
      { type: "webhook_triggered", payload: { endpoint_id: id, delivery_id: sent.id, fact_id: fact.fact_id } },
      { type: "webhook_sent", payload: { status: 204, attempts: 1 } },
    ]);
    const [cause] = await factsOf(caller.tenantId, fact.entity, 1);
    expect(facts.map(({ trace_id }) => trace_id)).toEqual([cause?.trace_id, cause?.trace_id]);
    expect(await received(deaf.hook)).toEqual([]);
  });

  it.concurrent("a fact is delivered once to each endpoint, for any deliveries of its message, also after a change of the endpoint", async () => {
    const caller = await callerWith();
    const endpoints = [await endpoint(caller), await endpoint(caller)];
    const fact = await outcome(caller.tenantId);
    for (const one of endpoints) await one.delivery("sent");
    const changed = await caller.call("PUT", endpoints[0]?.path ?? "", {
      version: 1,
      url: "http://127.0.0.1:1/elsewhere",
      fact_types: ["outcome", "charge"],
    });
    expect(changed.body).toMatchObject({ version: 2, enabled: true });

    const [recorded] = await factsOf(caller.tenantId, fact.entity, 1);
    const body = {
      ...envelopeFor(caller.tenantId, `${fact.entity}/${fact.fact_id}`, recorded),
      message_type: "fact.outcome",
      kind: "event",
      source: "ledger",
      outbox: "sender",
      subject: fact.entity,
      sequence: 1,
    };
    const deliveries = ["a", "b", "c"].map((id) => ({ id, timestamp: new Date(), attempts: 1, body }));
    const batch = createMessageBatch("fact-processing", deliveries);
    const ctx = createExecutionContext();
    await worker.queue(batch, env, ctx);
    expect((await getQueueResult(batch, ctx)).explicitAcks.sort()).toEqual(["a", "b", "c"]);

    for (const { hook, path } of endpoints) {
      expect(await received(hook)).toHaveLength(1);
      expect((await caller.get(`${path}/deliveries`)).body.items).toHaveLength(1);
    }
    expect((await caller.get("/v1/dead-letters?queue=fact-processing")).body.items).toEqual([]);
  });

  it.concurrent("two facts with one name in two ledgers are delivered separately", async () => {
    const caller = await callerWith();
    const { hook } = await endpoint(caller);
    await outcome(caller.tenantId, { fact_id: "same", entity: "account/one" });
    await outcome(caller.tenantId, { fact_id: "same", entity: "account/two" });
    const requests = await received(hook, 2);
    expect(new Set(requests.map(({ id }) => id)).size).toBe(2);
  });

  it.concurrent("a fact of the maximum size arrives complete at every endpoint, and its signature is valid for any character", async () => {
    const caller = await callerWith();
    const endpoints = [await endpoint(caller), await endpoint(caller)];
    const payload = { account: "a1", value_cents: 1, note: "🧾 ünï\u2028 ".repeat(900) };
    await outcome(caller.tenantId, { payload } as Partial<StatedFact>);
    for (const { hook, delivery } of endpoints) {
      await delivery("sent");
      const [request] = await received(hook, 1);
      expect(request?.verified).toEqual([true]);
      expect(JSON.parse(request?.body ?? "").data.payload).toEqual(payload);
    }
  });

  it.concurrent("a fact that was accepted before an endpoint was registered is not delivered to it", async () => {
    const caller = await callerWith();
    const witness = await endpoint(caller);
    await outcome(caller.tenantId);
    await witness.delivery("sent");
    const late = await endpoint(caller);
    await outcome(caller.tenantId);
    await late.delivery("sent");
    expect(await received(witness.hook, 2)).toHaveLength(2);
    expect(await received(late.hook)).toHaveLength(1);
  });
});

describe("An endpoint", () => {
  it.concurrent("an endpoint is disabled after a 410 of its receiver, with the reason, and gets nothing until it is enabled again", async () => {
    const caller = await callerWith();
    const gone = await endpoint(caller);
    await tell(gone.hook, { treatments: [{ status: 410, times: 1 }] });
    await outcome(caller.tenantId);
    const delivery = await gone.delivery("gone");
    await reaches(caller, delivery.id, "complete");
    expect((await caller.get(gone.path)).body).toMatchObject({
      version: 2,
      enabled: false,
      state: "disabled",
      reason: "The receiver answered 410 Gone.",
      changed_by: "millrace",
    });
    expect(await ledger(caller.tenantId, gone.id, 2)).toMatchObject([
      { type: "webhook_triggered" },
      { type: "webhook_failed", payload: { status: 410 } },
    ]);
    const witness = await endpoint(caller);
    await outcome(caller.tenantId);
    await witness.delivery("sent");
    expect(await received(gone.hook)).toHaveLength(1);
    expect((await caller.post(`${gone.path}/enable`, { version: 2 })).body).toMatchObject({ version: 3, enabled: true, reason: null });
    await outcome(caller.tenantId);
    expect(await received(gone.hook, 2)).toHaveLength(2);
  });

  it.concurrent("a deleted endpoint skips its open deliveries without a request", async () => {
    const caller = await callerWith();
    const { hook, path, delivery } = await patient(caller);
    expect((await caller.call("DELETE", path)).body).toMatchObject({ version: 2, state: "deleted", enabled: false });
    const skipped = await delivery("skipped");
    expect(skipped).toMatchObject({ tried: 1 });
    await reaches(caller, skipped.id, "complete");
    expect(await received(hook)).toHaveLength(1);
  });

  it.concurrent("an endpoint gets its deliveries, also the open ones, at its new URL after a change", async () => {
    const caller = await callerWith();
    const { hook, path, delivery } = await endpoint(caller);
    const other = await endpoint(caller, { fact_types: ["payout"] });
    await tell(hook, { treatments: [{ status: 429, headers: { "retry-after": "2" }, times: 1 }] });
    await outcome(caller.tenantId);
    await received(hook, 1);
    const url = (await caller.get(other.path)).body.url;
    expect((await caller.call("PUT", path, { version: 1, url, fact_types: ["outcome"] })).status).toBe(200);
    const sent = await delivery("sent");
    expect(sent).toMatchObject({ config_version: 1, attempts: [{ version: 1 }, { version: 2 }] });
    expect((await received(other.hook, 1)).map(({ id }) => id)).toEqual([sent.id]);
  });
});

describe("An endpoint that is disabled temporarily", () => {
  it.concurrent("an endpoint that is disabled temporarily loses nothing: open deliveries wait without a request, and are sent once it is enabled", async () => {
    const caller = await callerWith();
    const off = await patient(caller);
    await off.disable();
    const { id } = await off.delivery("pending");
    expect(await reaches(caller, id, "waiting")).toMatchObject({ waiting_for: [{ event_type: "webhook.switched", subject: off.id }] });
    expect(await received(off.hook)).toHaveLength(1);
    await caller.post(`${off.path}/enable`, { version: 2 });
    expect(await off.delivery("sent")).toMatchObject({ id, tried: 2 });
    expect((await received(off.hook, 2)).map((request) => request.id)).toEqual([id, id]);
    expect((await ledger(caller.tenantId, off.id, 2)).map(({ type }) => type)).toEqual(["webhook_triggered", "webhook_sent"]);
  });

  it.concurrent("an endpoint that is disabled twice loses nothing, for any notifications in between", async () => {
    const caller = await callerWith();
    const off = await patient(caller);
    await off.disable();
    await caller.post(`${off.path}/enable`, { version: 2 });
    await off.disable(3);
    const { id } = await off.delivery("pending");
    await reaches(caller, id, "waiting");
    await caller.post(`${off.path}/enable`, { version: 4 });
    expect(await off.delivery("sent")).toMatchObject({ id, tried: 2 });
  });

  it.concurrent("an endpoint that is disabled because one delivery was answered with 410 loses only that delivery", async () => {
    const caller = await callerWith();
    const { hook, path } = await patient(caller);
    await tell(hook, { treatments: [{ status: 410, times: 1 }] });
    await outcome(caller.tenantId);
    const items = async () => (await caller.get(`${path}/deliveries`)).body.items as Json[];
    const [gone, pending] = await until(items, ([newest]) => newest?.state === "gone");
    await reaches(caller, pending?.id, "waiting");
    await caller.post(`${path}/enable`, { version: 2 });
    const states = await until(items, ([, older]) => older?.state === "sent");
    expect(states).toMatchObject([
      { id: gone?.id, state: "gone" },
      { id: pending?.id, state: "sent", tried: 2 },
    ]);
  });

  it.concurrent("a disabled endpoint that is then deleted wakes its waiting deliveries, which are skipped", async () => {
    const caller = await callerWith();
    const off = await patient(caller);
    await off.disable();
    const { id } = await off.delivery("pending");
    await reaches(caller, id, "waiting");
    await caller.call("DELETE", off.path);
    expect(await off.delivery("skipped")).toMatchObject({ id, tried: 1 });
  });

  it.concurrent("an endpoint that is disabled for a week has its deliveries skipped, and the ledger has the reason", async () => {
    const caller = await callerWith();
    const off = await patient(caller);
    const { id } = await off.delivery("pending");
    for (let day = 1; day <= 7; day++) {
      // A past day, by the database's clock.
      await env.DB.prepare(
        `INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at, asked_at, over_at)
         VALUES (?1, ?2, 'deliver-webhook', ?3, 'webhook.switched', ?4, ?5, 0, 0, 1)`,
      )
        .bind(id, `wait until it is on [${day}]`, caller.tenantId, off.id, `signal-${id}-${day}`)
        .run();
    }
    await off.disable();
    expect(await off.delivery("skipped")).toMatchObject({ id, tried: 1 });
    await reaches(caller, id, "complete");
    expect(await ledger(caller.tenantId, off.id, 2)).toMatchObject([
      { type: "webhook_triggered" },
      { type: "webhook_failed", payload: { status: null, reason: "The endpoint has been off for 7 days." } },
    ]);
  });
});

/** An endpoint whose one delivery has a delay of two seconds: long enough to change the endpoint before the retry. */
async function patient(caller: Caller) {
  const one = await endpoint(caller);
  await tell(one.hook, { treatments: [{ status: 429, headers: { "retry-after": "2" }, times: 1 }] });
  await outcome(caller.tenantId);
  await received(one.hook, 1);
  const { url } = (await caller.get(one.path)).body;
  const disable = async (version = 1) => {
    const off = await caller.call("PUT", one.path, { version, url, fact_types: ["outcome"], enabled: false });
    expect(off.body).toMatchObject({ version: version + 1, state: "disabled" });
  };
  return { ...one, disable };
}

it.concurrent("a restarted delivery sends the same id, if it sends at all, and is recorded once", async () => {
  const caller = await callerWith();
  const { hook, id: endpointId, delivery } = await endpoint(caller);
  await outcome(caller.tenantId);
  const { id } = await delivery("sent");
  await reaches(caller, id, "complete");
  const instance = await env.DELIVER_WEBHOOK.get(id);
  await instance.restart();
  await until(
    async () => (await instance.status()).status,
    (status) => status === "complete",
  );
  expect(new Set((await received(hook)).map((request) => request.id))).toEqual(new Set([id]));
  expect(await delivery("sent")).toMatchObject({ id, tried: 1, attempts: [{ attempt: 1 }] });
  await outcome(caller.tenantId);
  // The second delivery's facts come after any remaining facts of the restart.
  expect((await ledger(caller.tenantId, endpointId, 4)).map(({ type }) => type)).toEqual([
    "webhook_triggered",
    "webhook_sent",
    "webhook_triggered",
    "webhook_sent",
  ]);
});
