import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { defineEvent, on, stateEvents } from "millrace";
import { catalog } from "millrace/worker";
import { describe, expect, it, vi } from "vitest";
import * as z from "zod";
import { type Caller, callerWith, expectProblem } from "../api/client.ts";
import { routesOf } from "../probe/consumers.ts";
import { type LabCall, labs } from "../probe/lab.ts";
import type { Listener } from "../probe/listener.ts";
import { probeEvents } from "../probe/messages.ts";
import { dieAt, fresh, keeperRound, probeEnv, retentionPass, rows, until } from "./harness.ts";
import { outputOf } from "./lab.ts";
import { hear, openWaits } from "./waiting.ts";

const DAY_MS = 86_400_000;

const signal = (about: string, value: string) => ({ type: "probe.signal", payload: { about, value } });
const done = (name: string, step = "outside") => ({ type: "probe.done", payload: { name, step } });
const keyed = (key: string) => ({ "idempotency-key": key });
const state = (caller: Caller, event: object, key = fresh("key")) => caller.post("/v1/events", event, keyed(key));

/** A run of the caller's tenant that does what the code says. */
async function runFor(caller: Caller, code: (call: LabCall) => Promise<unknown>): Promise<{ id: string; name: string }> {
  const name = fresh("lab");
  labs.set(name, code);
  const { body } = await caller.post("/v1/commands", { type: "lab.requested", payload: { name } });
  return { id: body.instance_id, name };
}

const listen = (caller: Caller) => runFor(caller, ({ step, payload }) => hear(step, "answer", payload.name));

/** What followed from what is stated about a name: the runs that it started, the commands that it sent, and how often it was told. */
async function followed(name: string) {
  const kinds = await rows<{ kind: string }>("SELECT kind FROM probe_rows WHERE name = ?1 ORDER BY kind", name);
  const listener = probeEnv.LISTENER.get(probeEnv.LISTENER.idFromName(name)) as unknown as DurableObjectStub<Listener>;
  return { kinds: kinds.map(({ kind }) => kind), told: await runInDurableObject(listener, (object) => object.heard()) };
}
const ONCE = { kinds: ["command", "event"], told: 1 };

/** Until something has followed, and then a while longer: a second of what should be there once would come then. */
async function settled(name: string) {
  await until(
    () => followed(name),
    ({ kinds, told }) => kinds.length >= 2 && told >= 1,
  );
  await keeperRound();
  await until(
    () => rows("SELECT id FROM outbox WHERE instr(body, ?1) > 0", name),
    (left) => left.length === 0,
  );
  return followed(name);
}

/** The message of an event that runs may wait for, as it is kept for them. */
async function kept(eventId: string) {
  const find = () => rows<{ envelope: string }>("SELECT envelope FROM signals WHERE envelope->>'idempotency_key' = ?1", eventId);
  const [row] = await until(find, (found) => found.length > 0);
  return JSON.parse(row?.envelope ?? "null");
}

describe("An event that the outside world states", () => {
  it("W24 wakes the instance that waits for it, once, however often it is stated", async () => {
    const caller = await callerWith();
    const { id, name } = await runFor(caller, async ({ step, payload }) => [
      await hear(step, "first", payload.name),
      await hear(step, "second", payload.name),
    ]);
    await openWaits(id, 1);
    const first = await state(caller, signal(name, "yes"), "one");
    expect([first.status, first.body]).toEqual([
      202,
      { event_id: expect.stringMatching(/^[0-9a-f]{32}$/), replayed: false, correlation_id: first.body.event_id },
    ]);
    expect((await state(caller, signal(name, "yes"), "one")).body).toEqual({ ...first.body, replayed: true });
    await until(
      () => rows("SELECT 1 FROM waits WHERE instance_id = ?1 AND name = 'second'", id),
      (found) => found.length === 1,
    );
    expect((await state(caller, signal(name, "yes"), "one")).body).toEqual({ ...first.body, replayed: true });
    await state(caller, signal(name, "yes again"), "two");
    expect(await outputOf(id)).toEqual(["yes", "yes again"]);
  });

  it("W24 is heard by a wait that begins after it was stated, if its instance was accepted before", async () => {
    const caller = await callerWith();
    let go = false;
    const { id, name } = await runFor(caller, async ({ step, payload }) => {
      await step.read("be busy", async () => {
        while (!go) await scheduler.wait(10);
        return 1;
      });
      return hear(step, "answer", payload.name);
    });
    await kept((await state(caller, signal(name, "early"))).body.event_id);
    go = true;
    expect(await outputOf(id)).toBe("early");
  });

  it("starts a workflow, sends a command and is told to an object, each once, though fifty state it at once", async () => {
    const [caller, name, key] = [await callerWith(), fresh(), fresh("key")];
    const answers = await Promise.all(Array.from({ length: 50 }, () => state(caller, done(name), key)));
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(202));
    expect(new Set(answers.map(({ body }) => body.event_id)).size).toBe(1);
    expect(answers.filter(({ body }) => !body.replayed)).toHaveLength(1);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("is its token's tenant's and actor's, about what its definition says, with its job, its cause and its trace", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const stated = { ...signal(name, "yes"), correlation_id: "job 7", causation_id: "a scan" };
    const { body } = await caller.post("/v1/events", stated, { ...keyed("scan-1"), traceparent });
    expect(body.correlation_id).toBe("job 7");
    const envelope = await kept(body.event_id);
    expect(envelope).toMatchObject({
      kind: "event",
      message_type: "probe.signal",
      source: "api/ada",
      tenant_id: caller.tenantId,
      subject: name,
      correlation_id: "job 7",
      causation_id: "a scan",
      idempotency_key: body.event_id,
    });
    expect(envelope.traceparent).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/);
    expect((await state(caller, { ...stated, correlation_id: "job 8" }, "scan-1")).body).toEqual({ ...body, replayed: true });
  });

  it("T01 wakes nobody of another tenant, whose own event may have the same key", async () => {
    const [one, other] = [await callerWith(), await callerWith()];
    const { id, name } = await listen(one);
    await openWaits(id, 1);
    const stranger = await state(other, signal(name, "from a stranger"), "k");
    await kept(stranger.body.event_id);
    const own = await state(one, signal(name, "from its own"), "k");
    expect(own.body).toMatchObject({ replayed: false });
    expect(own.body.event_id).not.toBe(stranger.body.event_id);
    expect(await outputOf(id)).toBe("from its own");
    expectProblem(await state(one, { ...signal(name, "x"), tenant_id: other.tenantId }), 422, "invalid_payload");
  });

  it("carries a payload too large for a queue by reference", async () => {
    const caller = await callerWith();
    const { id, name } = await listen(caller);
    await openWaits(id, 1);
    const value = "v".repeat(200_000);
    const { body } = await state(caller, signal(name, value), "k");
    expect((await kept(body.event_id)).payload_ref).toMatch(new RegExp(`^r2://payloads/${caller.tenantId}/`));
    expect(await outputOf(id)).toBe(value);
    expect((await state(caller, signal(name, value), "k")).body.replayed).toBe(true);
  });

  it("costs one write of the database, and a repeat changes no row", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    const mine = () =>
      batch.mock.calls.flatMap(([statements], index) =>
        JSON.stringify(statements).includes("stated_events") ? [batch.mock.results[index]?.value] : [],
      );
    for (const key of ["k", "k"]) await state(caller, signal(name, "yes"), key);
    const answers = await Promise.all(mine().map((value) => value as Promise<D1Result[]>));
    batch.mockRestore();
    // The key, the message, and its place among those that are due.
    expect(answers.map((results) => results.reduce((sum, { meta }) => sum + meta.rows_written, 0))).toEqual([3, 0]);
  });
});

describe("An event that is stated while something fails", () => {
  it("A01 the API dies before the commit: nothing is taken, and the retry is the one event", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const death = dieAt("A01 before an event commits");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect(death.died()).toBe(true);
    expect((await state(caller, done(name), "k")).body.replayed).toBe(false);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A02 committed and sent, but the answer is lost: the retry gets the same event, marked as replayed", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    dieAt("A02 event committed, not answered");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect((await state(caller, done(name), "k")).body).toMatchObject({ replayed: true });
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A03 committed, and the process dies before it is sent: the keeper sends it", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    dieAt("A03 event committed, not sent");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect((await followed(name)).kinds).toEqual([]);
    await keeperRound();
    expect(await settled(name)).toEqual(ONCE);
    expect((await state(caller, done(name), "k")).body.replayed).toBe(true);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A03 committed, and the queue takes nothing: it is answered 202 all the same, and the keeper sends it when the queue does", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const queue = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS), "sendBatch").mockRejectedValue(new Error("The queue is away."));
    const { status, body } = await state(caller, done(name), "k");
    queue.mockRestore();
    expect([status, body.replayed]).toEqual([202, false]);
    await keeperRound();
    expect(await settled(name)).toEqual(ONCE);
  });
});

describe("The key of a stated event", () => {
  it("A05 with another payload is refused, and nothing follows from that", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    await state(caller, done(name), "k");
    const problem = expectProblem(await state(caller, done(name, "another"), "k"), 422, "idempotency_key_reused");
    expect(problem.detail).toContain('"k"');
    expect(await settled(name)).toEqual(ONCE);
    // Of another type, it is another event.
    expect((await state(caller, signal(name, "yes"), "k")).body.replayed).toBe(false);
  });

  it("A10 is taken once in a batch: the first payload is the event, its repeat is known, the other is refused", async () => {
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

  it("A09 is free after a refusal: the corrected event is taken under it", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const { issues } = expectProblem(await state(caller, { type: "probe.signal", payload: { about: name } }, "k"), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "payload.value" }]);
    expect((await state(caller, signal(name, "yes"), "k")).body.replayed).toBe(false);
  });

  it("is asked for: without one a repeat could not be known", async () => {
    const caller = await callerWith();
    const { issues } = expectProblem(await caller.post("/v1/events", signal("a", "b")), 422, "invalid_payload");
    expect(issues).toEqual([{ path: "Idempotency-Key", message: expect.stringContaining("is missing: name the event") }]);
    expectProblem(await caller.post("/v1/events/batch", { events: [] }, keyed("k")), 422, "invalid_payload");
  });

  it("is a CloudEvent's source and id, structured, binary or in a batch", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const { type, payload: data } = done(name);
    const event = { specversion: "1.0", id: "scan-1", source: "/courier", type, data, correlationid: "job 9" };
    const first = await caller.post("/v1/events", event, { "content-type": "application/cloudevents+json" });
    expect([first.status, first.body]).toEqual([202, { event_id: expect.any(String), replayed: false, correlation_id: "job 9" }]);
    const headers = { "ce-specversion": "1.0", "ce-id": "scan-1", "ce-source": "/courier", "ce-type": type };
    expect((await caller.post("/v1/events", data, headers)).body).toEqual({ ...first.body, replayed: true });
    const misspelt = { ...event, id: "scan-2", data: { ...data, more: 1 } };
    const batch = await caller.post("/v1/events/batch", [{ ...event, causationid: null }, misspelt, "none"], {
      "content-type": "application/cloudevents-batch+json",
    });
    expect(batch.body.results).toMatchObject([
      { status: 202, ...first.body, replayed: true },
      { status: 422, problem: { issues: [{ path: "payload.more" }] } },
      { status: 422 },
    ]);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A08 is known for 430 days, when all that followed is long gone, and not for ever", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const { body } = await state(caller, done(name), "k");
    expect(await settled(name)).toEqual(ONCE);
    const age = (days: number) =>
      env.DB.prepare("UPDATE stated_events SET stated_at = ?2 WHERE id = unhex(?1)")
        .bind(body.event_id, Date.now() - days * DAY_MS)
        .run();
    await age(429);
    await retentionPass();
    expect((await state(caller, done(name), "k")).body).toEqual({ ...body, replayed: true });
    expectProblem(await state(caller, done(name, "another"), "k"), 422, "idempotency_key_reused");
    await age(431);
    await retentionPass();
    expect(await rows("SELECT 1 FROM stated_events WHERE id = unhex(?1)", body.event_id)).toEqual([]);
    // Its followers still know it: their tombstones are as old as they are.
    expect((await state(caller, done(name), "k")).body).toEqual({ ...body, replayed: false });
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A02 is a repeat over a deployment that reads more in the same words, or the same in others", async () => {
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
      const [answer] = await stateEvents(probeEnv, known, by, [{ type: event.type, payload, schemaVersion, idempotencyKey: "k" }]);
      return answer;
    };
    expect(await say(old, { note: "a" })).toMatchObject({ replayed: false });
    expect(await say(defaults, { note: "a" })).toMatchObject({ replayed: true });
    expect(await say(renamed, { note: "a" })).toMatchObject({ replayed: true });
    expect(await say(defaults, { note: "b" })).toMatchObject({ code: "idempotency_key_reused" });
    expect(await say(renamed, { note: "b" })).toMatchObject({ code: "idempotency_key_reused" });
  });
});

describe("A door", () => {
  it("that an event does not declare is closed, and the answer says how it is opened", async () => {
    const caller = await callerWith();
    const problem = expectProblem(await state(caller, { type: "lab.event", payload: { name: "x" } }), 403, "forbidden");
    expect(problem.detail).toContain('`door: { scope: "enqueue" }`');
    const { body } = await caller.post("/v1/events/batch", { events: [{ type: "lab.event", payload: {}, idempotency_key: "k" }] });
    expect(body.results).toMatchObject([{ status: 403, problem: { code: "forbidden" } }]);
  });

  it("that asks for another scope lets nobody in without it", async () => {
    const routed = { type: "probe.routed", payload: { name: fresh(), parts: [] } };
    const { detail } = expectProblem(await state(await callerWith(["enqueue"]), routed), 403, "forbidden");
    expect(detail).toBe("probe.routed needs the scope `operate`, which the token lacks. Use one that has it.");
    expect((await state(await callerWith(["enqueue", "operate"]), routed)).status).toBe(202);
    expectProblem(await state(await callerWith(["operate"]), routed), 403, "forbidden");
  });

  it("for events takes no command, and that for commands no event: each names the other", async () => {
    const caller = await callerWith();
    const command = expectProblem(await state(caller, { type: "probe.requested", payload: {} }), 404, "unknown_message_type");
    expect(command.detail).toBe('"probe.requested" is a command, not an event: ask for it with POST /v1/commands.');
    const event = expectProblem(await caller.post("/v1/commands", signal("a", "b")), 404, "unknown_message_type");
    expect(event.detail).toContain('"probe.signal" is an event, not a command: POST /v1/events');
  });

  it("guesses which type was meant", async () => {
    const problem = expectProblem(await state(await callerWith(), { type: "probe.singal", payload: {} }), 404, "unknown_message_type");
    expect(problem.did_you_mean).toBe("probe.signal");
  });
});
