import { env } from "cloudflare:workers";
import { defineEvent, on, publishEvents } from "millrace";
import { catalog } from "millrace/worker";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { callerWith, expectProblem } from "../../api/client.ts";
import { routesOf } from "../../probe/consumers.ts";
import { probeEvents } from "../../probe/messages.ts";
import { fresh, probeEnv, retentionPass, rows } from "../harness.ts";
import { DAY_MS, done, keyed, ONCE, settled, signal, state } from "./stating.ts";

describe("Event keys", () => {
  it("A05 an event with the key of another payload is refused, and has no effect", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    await state(caller, done(name), "k");
    const problem = expectProblem(await state(caller, done(name, "another"), "k"), 422, "idempotency_key_reused");
    expect(problem.detail).toContain('"k"');
    expect(await settled(name)).toEqual(ONCE);
    // An event of another type with the same key is a separate event.
    expect((await state(caller, signal(name, "yes"), "k")).body.replayed).toBe(false);
  });

  it("A10 a batch with one event key several times accepts the first payload, answers repeats as replayed, and refuses another payload", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const [one, other] = [
      { ...done(name), idempotency_key: "k" },
      { ...done(name, "another"), idempotency_key: "k" },
    ];
    const items = [one, other, one, { ...done(name) }, { ...done(""), idempotency_key: 7 }, "no object"];
    const { status, body } = await caller.post("/v1/events/batch", { events: items });
    expect(status).toBe(200);
    expect(body.results).toMatchObject([
      { status: 202, replayed: false },
      { status: 422, problem: { code: "idempotency_key_reused" } },
      { status: 202, replayed: true },
      { status: 422, problem: { code: "invalid_payload", issues: [{ path: "idempotency_key", message: "is missing: add it" }] } },
      { status: 422 },
      { status: 422 },
    ]);
    expect(await settled(name)).toEqual(ONCE);
    const again = await caller.post("/v1/events/batch", { events: [other, one] });
    expect(again.body.results).toMatchObject([{ status: 422 }, { status: 202, replayed: true, event_id: body.results[0].event_id }]);
  });

  it("A09 a corrected event is accepted under the key of a refused event", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const { issues } = expectProblem(await state(caller, { type: "probe.signal", payload: { about: name } }, "k"), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "payload.value" }]);
    expect((await state(caller, signal(name, "yes"), "k")).body.replayed).toBe(false);
  });

  it("an event without a key is refused, because a repeat could not be recognized", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/events", signal("a", "b")), 422, "invalid_payload");
    expect(issues).toEqual([{ path: "Idempotency-Key", message: expect.stringContaining("is missing: send a key for the event") }]);
    expectProblem(await caller.post("/v1/events/batch", { events: [] }, keyed("k")), 422, "invalid_payload");
  });

  it("the key of a CloudEvent is its source and id, for structured and binary requests and in a batch", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const { type, payload: data } = done(name);
    const event = { specversion: "1.0", id: "scan-1", source: "/courier", type, data, correlationid: "job 9" };
    const first = await caller.post("/v1/events", event, { "content-type": "application/cloudevents+json" });
    expect([first.status, first.body]).toEqual([202, { event_id: expect.any(String), replayed: false, correlation_id: "job 9" }]);
    const headers = { "ce-specversion": "1.0", "ce-id": "scan-1", "ce-source": "/courier", "ce-type": type };
    expect((await caller.post("/v1/events", data, headers)).body).toEqual({ ...first.body, replayed: true });
    const misspelt = { ...event, id: "scan-2", data: { ...data, more: 1 } };
    const timed = { ...event, id: "scan-3", mustendby: "2 hours" };
    const batch = await caller.post("/v1/events/batch", [{ ...event, causationid: null }, misspelt, "none", timed], {
      "content-type": "application/cloudevents-batch+json",
    });
    expect(batch.body.results).toMatchObject([
      { status: 202, ...first.body, replayed: true },
      { status: 422, problem: { issues: [{ path: "payload.more" }] } },
      { status: 422 },
      { status: 422, problem: { issues: [{ path: "mustendby", message: expect.stringContaining("an event has no single end") }] } },
    ]);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A08 the key of a published event is kept for 430 days, and then deleted", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const { body } = await state(caller, done(name), "k");
    expect(await settled(name)).toEqual(ONCE);
    const age = (days: number) =>
      env.DB.prepare("UPDATE millrace_stated_events SET stated_at = ?2 WHERE id = unhex(?1)")
        .bind(body.event_id, Date.now() - days * DAY_MS)
        .run();
    await age(429);
    await retentionPass();
    expect((await state(caller, done(name), "k")).body).toEqual({ ...body, replayed: true });
    expectProblem(await state(caller, done(name, "another"), "k"), 422, "idempotency_key_reused");
    await age(431);
    await retentionPass();
    expect(await rows("SELECT 1 FROM millrace_stated_events WHERE id = unhex(?1)", body.event_id)).toEqual([]);
    // The workflow and the command of the event are not started again, because their own keys still exist.
    expect((await state(caller, done(name), "k")).body).toEqual({ ...body, replayed: false });
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A02 a repeat of an event is recognized after a deployment that added a default value or renamed a field", async () => {
    const by = { tenantId: fresh("tenant"), source: "test" };
    const base = { type: "probe.orphan", subject: () => "it", queue: probeEvents };
    const old = defineEvent({ ...base, payload: z.object({ note: z.string() }) });
    const defaults = defineEvent({ ...base, payload: z.object({ note: z.string(), more: z.string().default("none") }) });
    const renamed = defineEvent({
      ...base,
      version: 2,
      payload: z.object({ text: z.string() }),
      upcasts: { 1: ({ note }: { note: string }) => ({ text: note }) },
    });
    const say = async (event: typeof old | typeof defaults | typeof renamed, payload: unknown, schemaVersion = 1) => {
      const known = catalog({ consumers: [routesOf(on(event as typeof old))] });
      const [answer] = await publishEvents(probeEnv, known, by, [{ type: event.type, payload, schemaVersion, idempotencyKey: "k" }]);
      return answer;
    };
    expect(await say(old, { note: "a" })).toMatchObject({ replayed: false });
    expect(await say(defaults, { note: "a" })).toMatchObject({ replayed: true });
    expect(await say(renamed, { note: "a" })).toMatchObject({ replayed: true });
    expect(await say(defaults, { note: "b" })).toMatchObject({ code: "idempotency_key_reused" });
    expect(await say(renamed, { note: "b" })).toMatchObject({ code: "idempotency_key_reused" });
  });
});
