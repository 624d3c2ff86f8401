import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { callerWith, expectProblem } from "../../api/client.ts";
import { dieAt, fresh, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { outputOf } from "../lab.ts";
import { hear, openWaits } from "../signals/waiting.ts";
import { done, followed, kept, keyed, listen, ONCE, runFor, settled, signal, state } from "./stating.ts";

describe("Published events", () => {
  it("W24 an event that is published several times wakes the waiting instance once", async () => {
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
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", id),
      (found) => found.length === 1,
    );
    expect((await state(caller, signal(name, "yes"), "one")).body).toEqual({ ...first.body, replayed: true });
    await state(caller, signal(name, "yes again"), "two");
    expect(await outputOf(id)).toEqual(["yes", "yes again"]);
  });

  it("W24 a wait accepts an event that was published before the wait and after the acceptance of the instance", async () => {
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

  it("A06 an event that fifty callers publish at once starts a workflow, sends a command and calls an object once each", async () => {
    const [caller, name, key] = [await callerWith(), fresh(), fresh("key")];
    const answers = await Promise.all(Array.from({ length: 50 }, () => state(caller, done(name), key)));
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(202));
    expect(new Set(answers.map(({ body }) => body.event_id)).size).toBe(1);
    expect(answers.filter(({ body }) => !body.replayed)).toHaveLength(1);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("a published event has the tenant and actor of its token, the subject of its definition, and its correlation, causation and trace", async () => {
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

  it("T01 A07 a published event wakes no instance of another tenant, also when that tenant has an event with the same key", async () => {
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

  it("a published event with a payload too large for a queue is sent by reference", async () => {
    const caller = await callerWith();
    const { id, name } = await listen(caller);
    await openWaits(id, 1);
    const value = "v".repeat(200_000);
    const { body } = await state(caller, signal(name, value), "k");
    expect((await kept(body.event_id)).payload_ref).toMatch(new RegExp(`^r2://payloads/${caller.tenantId}/`));
    expect(await outputOf(id)).toBe(value);
    expect((await state(caller, signal(name, value), "k")).body.replayed).toBe(true);
  });

  it("A04 the publication of an event costs one database write, and a repeat changes no row", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    const mine = () =>
      batch.mock.calls.flatMap(([statements], index) =>
        JSON.stringify(statements).includes("millrace_stated_events") ? [batch.mock.results[index]?.value] : [],
      );
    for (const key of ["k", "k"]) await state(caller, signal(name, "yes"), key);
    const answers = await Promise.all(mine().map((value) => value as Promise<D1Result[]>));
    batch.mockRestore();
    // Rows of the key, of the message, and of the index of due messages.
    expect(answers.map((results) => results.reduce((sum, { meta }) => sum + meta.rows_written, 0))).toEqual([3, 0]);
  });
});

describe("Publication failures", () => {
  it("A01 an event whose API process dies before the commit is not accepted, and published once by the retry", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const death = dieAt("A01 before an event commits");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect(death.died()).toBe(true);
    expect((await state(caller, done(name), "k")).body.replayed).toBe(false);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A02 a retry of an event with a lost answer returns the same event, marked as replayed", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    dieAt("A02 event committed, not answered");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect((await state(caller, done(name), "k")).body).toMatchObject({ replayed: true });
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A03 the keeper sends a published event when the process died before the send", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    dieAt("A03 event committed, not sent");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect((await followed(name)).kinds).toEqual([]);
    await keeperRound();
    expect(await settled(name)).toEqual(ONCE);
    expect((await state(caller, done(name), "k")).body.replayed).toBe(true);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A03 a publication is answered 202 while the queue is unavailable, and the keeper sends the event later", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const queue = vi
      .spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS), "sendBatch")
      .mockRejectedValue(new Error("The queue is unavailable."));
    const { status, body } = await state(caller, done(name), "k");
    queue.mockRestore();
    expect([status, body.replayed]).toEqual([202, false]);
    await keeperRound();
    expect(await settled(name)).toEqual(ONCE);
  });
});

describe("Endpoint", () => {
  it("an event that is not declared for publication over HTTP is refused (403), and the answer names the declaration", async () => {
    const caller = await callerWith();
    const problem = expectProblem(await state(caller, { type: "lab.event", payload: { name: "x" } }), 403, "forbidden");
    expect(problem.detail).toContain('`access: { scope: "enqueue" }`');
    const { body } = await caller.post("/v1/events/batch", { events: [{ type: "lab.event", payload: {}, idempotency_key: "k" }] });
    expect(body.results).toMatchObject([{ status: 403, problem: { code: "forbidden" } }]);
  });

  it("an event with a custom scope is refused for tokens without that scope", async () => {
    const routed = { type: "probe.routed", payload: { name: fresh(), parts: [] } };
    const { detail } = expectProblem(await state(await callerWith(["enqueue"]), routed), 403, "forbidden");
    expect(detail).toBe("probe.routed needs the scope `operate`, which the token lacks. Use a token with that scope.");
    expect((await state(await callerWith(["enqueue", "operate"]), routed)).status).toBe(202);
    expectProblem(await state(await callerWith(["operate"]), routed), 403, "forbidden");
  });

  it("POST /v1/events refuses a command, and POST /v1/commands an event: each error names the other endpoint", async () => {
    const caller = await callerWith();
    const command = expectProblem(await state(caller, { type: "probe.requested", payload: {} }), 404, "unknown_message_type");
    expect(command.detail).toBe('"probe.requested" is a command, not an event: send it with POST /v1/commands.');
    const event = expectProblem(await caller.post("/v1/commands", signal("a", "b")), 404, "unknown_message_type");
    expect(event.detail).toContain('"probe.signal" is an event, not a command: publish it with POST /v1/events');
  });

  it("POST /v1/events suggests a similar type for an unknown type", async () => {
    const problem = expectProblem(await state(await callerWith(), { type: "probe.singal", payload: {} }), 404, "unknown_message_type");
    expect(problem.did_you_mean).toBe("probe.signal");
  });
});
