import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { callerWith, expectProblem } from "../../api/client.ts";
import { dieAt, fresh, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { outputOf } from "../lab.ts";
import { hear, openWaits } from "../signals/waiting.ts";
import { done, followed, kept, keyed, listen, ONCE, runFor, settled, signal, state } from "./stating.ts";

describe("A published event", () => {
  it("W24 wakes the waiting instance once, for any number of publications", async () => {
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

  it("W24 is accepted by a wait that begins after its publication, if the instance was accepted before", async () => {
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

  it("A06 starts a workflow, sends a command and calls an object, each once, although fifty callers publish it at once", async () => {
    const [caller, name, key] = [await callerWith(), fresh(), fresh("key")];
    const answers = await Promise.all(Array.from({ length: 50 }, () => state(caller, done(name), key)));
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(202));
    expect(new Set(answers.map(({ body }) => body.event_id)).size).toBe(1);
    expect(answers.filter(({ body }) => !body.replayed)).toHaveLength(1);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("has its token's tenant and actor, its definition's subject, and its job, cause and trace", async () => {
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

  it("T01 A07 wakes no instance of another tenant that has an event of the same key", async () => {
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

  it("with a payload too large for a queue is sent by reference", async () => {
    const caller = await callerWith();
    const { id, name } = await listen(caller);
    await openWaits(id, 1);
    const value = "v".repeat(200_000);
    const { body } = await state(caller, signal(name, value), "k");
    expect((await kept(body.event_id)).payload_ref).toMatch(new RegExp(`^r2://payloads/${caller.tenantId}/`));
    expect(await outputOf(id)).toBe(value);
    expect((await state(caller, signal(name, value), "k")).body.replayed).toBe(true);
  });

  it("A04 costs one database write, and its repeat changes no row", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    const mine = () =>
      batch.mock.calls.flatMap(([statements], index) =>
        JSON.stringify(statements).includes("millrace_stated_events") ? [batch.mock.results[index]?.value] : [],
      );
    for (const key of ["k", "k"]) await state(caller, signal(name, "yes"), key);
    const answers = await Promise.all(mine().map((value) => value as Promise<D1Result[]>));
    batch.mockRestore();
    // The key, the message, and its place among the due messages.
    expect(answers.map((results) => results.reduce((sum, { meta }) => sum + meta.rows_written, 0))).toEqual([3, 0]);
  });
});

describe("An event that is published during a failure", () => {
  it("A01 of the API before the commit is not accepted, and the retry publishes it once", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const death = dieAt("A01 before an event commits");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect(death.died()).toBe(true);
    expect((await state(caller, done(name), "k")).body.replayed).toBe(false);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A02 that loses the answer is returned to the retry as the same event, marked as replayed", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    dieAt("A02 event committed, not answered");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect((await state(caller, done(name), "k")).body).toMatchObject({ replayed: true });
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A03 of the process before the send is sent by the keeper", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    dieAt("A03 event committed, not sent");
    expect((await state(caller, done(name), "k")).status).toBe(500);
    expect((await followed(name)).kinds).toEqual([]);
    await keeperRound();
    expect(await settled(name)).toEqual(ONCE);
    expect((await state(caller, done(name), "k")).body.replayed).toBe(true);
    expect(await settled(name)).toEqual(ONCE);
  });

  it("A03 of the queue is answered 202, and the keeper sends it when the queue accepts it", async () => {
    const [caller, name] = [await callerWith(), fresh()];
    const queue = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS), "sendBatch").mockRejectedValue(new Error("The queue is away."));
    const { status, body } = await state(caller, done(name), "k");
    queue.mockRestore();
    expect([status, body.replayed]).toEqual([202, false]);
    await keeperRound();
    expect(await settled(name)).toEqual(ONCE);
  });
});

describe("An endpoint for events", () => {
  it("is closed to an event without a declaration, and the answer names the declaration that opens it", async () => {
    const caller = await callerWith();
    const problem = expectProblem(await state(caller, { type: "lab.event", payload: { name: "x" } }), 403, "forbidden");
    expect(problem.detail).toContain('`door: { scope: "enqueue" }`');
    const { body } = await caller.post("/v1/events/batch", { events: [{ type: "lab.event", payload: {}, idempotency_key: "k" }] });
    expect(body.results).toMatchObject([{ status: 403, problem: { code: "forbidden" } }]);
  });

  it("with its own scope refuses tokens without that scope", async () => {
    const routed = { type: "probe.routed", payload: { name: fresh(), parts: [] } };
    const { detail } = expectProblem(await state(await callerWith(["enqueue"]), routed), 403, "forbidden");
    expect(detail).toBe("probe.routed needs the scope `operate`, which the token lacks. Use a token with that scope.");
    expect((await state(await callerWith(["enqueue", "operate"]), routed)).status).toBe(202);
    expectProblem(await state(await callerWith(["operate"]), routed), 403, "forbidden");
  });

  it("accepts no command, and the endpoint for commands no event: each error names the other endpoint", async () => {
    const caller = await callerWith();
    const command = expectProblem(await state(caller, { type: "probe.requested", payload: {} }), 404, "unknown_message_type");
    expect(command.detail).toBe('"probe.requested" is a command, not an event: send it with POST /v1/commands.');
    const event = expectProblem(await caller.post("/v1/commands", signal("a", "b")), 404, "unknown_message_type");
    expect(event.detail).toContain('"probe.signal" is an event, not a command: publish it with POST /v1/events');
  });

  it("suggests the type that was probably meant", async () => {
    const problem = expectProblem(await state(await callerWith(), { type: "probe.singal", payload: {} }), 404, "unknown_message_type");
    expect(problem.did_you_mean).toBe("probe.signal");
  });
});
