import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { keeperOf } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { deliver, dieAt, event, fresh, keeperRound, probeEnv, probeOutput, reaches, restarted, rows, start, until } from "../harness.ts";

/** How often an event was processed: by the workflow that it starts, and by the command of its route. */
const applied = (name: string) =>
  rows<{ kind: string; n: number }>(
    "SELECT kind, count(*) AS n FROM probe_rows WHERE name = ?1 AND kind <> 'commit' GROUP BY kind ORDER BY kind",
    name,
  );
const once = [
  { kind: "command", n: 1 },
  { kind: "event", n: 1 },
];
const isOnce = (found: unknown[]) => found.length === 2;
const heard = (name: string) =>
  (probeEnv.LISTENER.get(probeEnv.LISTENER.idFromName(name)) as unknown as { heard(): Promise<number> }).heard();

/** The event that a complete probe run has emitted. */
async function emitted(instanceId: string): Promise<unknown> {
  const [row] = await rows<{ message: string }>(
    "SELECT messages->0 AS message FROM millrace_inbox WHERE instance_id = ?1 AND messages IS NOT NULL",
    instanceId,
  );
  return JSON.parse(row?.message ?? "null");
}

describe("Events of steps", () => {
  it("an event of a step starts its workflow, sends its command and calls its Durable Object once, and is removed from the outbox", async () => {
    const name = fresh();
    const { instanceId, correlationId } = await start(name, [{ do: "commit", name: "note", emit: true }]);
    expect(await until(() => applied(name), isOnce)).toEqual(once);
    expect(await heard(name)).toBe(1);
    expect(
      await until(
        () => rows("SELECT id FROM millrace_outbox WHERE instr(body, ?1) > 0", name),
        (left) => left.length === 0,
      ),
    ).toEqual([]);
    const chain = await rows<{ causation_id: string; message_type: string }>(
      "SELECT message_type, causation_id FROM millrace_instances WHERE correlation_id = ?1 ORDER BY accepted_at, message_type",
      correlationId,
    );
    const traces = await rows<{ trace: string }>(
      "SELECT DISTINCT substr(envelope->>'traceparent', 4, 32) AS trace FROM millrace_instances WHERE correlation_id = ?1",
      correlationId,
    );
    expect(traces).toHaveLength(1);
    expect(chain.map((one) => one.message_type).sort()).toEqual(["probe.done", "probe.follow", "probe.requested"]);
    expect(chain.find((one) => one.message_type === "probe.done")?.causation_id).toBe(`${instanceId}/note`);
  });

  it("O01 the keeper sends an event when the relay died before it sent the event; the event is processed once", async () => {
    const name = fresh();
    const { died } = dieAt("O01 committed, not relayed", name);
    const { instanceId } = await start(name, [{ do: "commit", name: "note", emit: true }]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(died()).toBe(true);
    expect(await applied(name)).toEqual([]);
    await keeperRound();
    expect(await until(() => applied(name), isOnce)).toEqual(once);
  });

  it("O02 an event that is sent again because the relay died after it sent the event is processed once", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "commit", name: "note", emit: true }]);
    await until(() => applied(name), isOnce);
    const message = await emitted(instanceId);
    for (let time = 0; time < 3; time++) expect(await deliver("probe-events", [message])).toEqual({ acked: 1, retried: 0 });
    expect(await applied(name)).toEqual(once);
    expect(await heard(name)).toBe(1);
  });

  it("O03 an event that two relays send concurrently is processed once", async () => {
    const name = fresh();
    dieAt("O01 committed, not relayed", name);
    const { instanceId } = await start(name, [{ do: "commit", name: "note", emit: true }]);
    await reaches(instanceId, "complete");
    await env.DB.prepare("UPDATE millrace_outbox SET due_at = 0").run();
    await Promise.all([keeperOf(probeEnv).round(), keeperOf(probeEnv).round(), keeperRound()]);
    expect(await until(() => applied(name), isOnce)).toEqual(once);
    expect(
      await until(
        () => rows("SELECT id FROM millrace_outbox WHERE instr(body, ?1) > 0", name),
        (left) => left.length === 0,
      ),
    ).toEqual([]);
  });

  it("O04 events that arrive in any order are processed once each", async () => {
    const names = [fresh(), fresh(), fresh()];
    const events = names.map((name) => event("probe.done", name, { name, step: "s" }));
    await deliver("probe-events", [...events].reverse());
    await deliver("probe-events", events);
    for (const name of names) expect(await until(() => applied(name), isOnce)).toEqual(once);
  });

  it("O05 an event that no queue accepts backs off, and blocks no other event", async () => {
    const name = fresh();
    const good = event("probe.done", name, { name, step: "s" });
    // Due in one hour, so that only the round of this test sends the events, and not the keeper's alarm.
    const put = (id: string, queue: string, body: string) =>
      env.DB.prepare("INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, ?2, ?3, ?4)").bind(
        id,
        queue,
        body,
        Date.now() + 3_600_000,
      );
    await env.DB.batch([
      put("poison", "probe-events", "{not json"),
      put("nowhere", "no-such-queue", "{}"),
      put("good", "probe-events", JSON.stringify(good)),
    ]);
    await keeperRound();
    expect(await until(() => applied(name), isOnce)).toEqual(once);
    const stuck = await rows<{ id: string; attempts: number; error: string; due_at: number }>(
      "SELECT id, attempts, error, due_at FROM millrace_outbox WHERE id IN ('poison', 'nowhere') ORDER BY id",
    );
    expect(stuck).toMatchObject([
      { id: "nowhere", attempts: 1, error: expect.stringContaining("NO_SUCH_QUEUE") },
      { id: "poison", attempts: 1, error: expect.stringContaining("JSON") },
    ]);
    expect(stuck.every((row) => row.due_at > Date.now())).toBe(true);
    await env.DB.prepare("DELETE FROM millrace_outbox").run();
  });

  it("O01 an event is sent although its queue always has an older message waiting", async () => {
    const name = fresh();
    const unsent = event("probe.done", name, { name, step: "s" });
    const metrics = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS), "metrics").mockImplementation(async () => ({
      backlogCount: 1000,
      backlogBytes: 1,
      oldestMessageTimestamp: new Date(Date.now() - 30_000),
    }));
    onTestFinished(() => metrics.mockRestore());
    await env.DB.prepare("INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, 'probe-events', ?2, ?3)")
      .bind(name, JSON.stringify(unsent), Date.now())
      .run();
    const pass = (ms: number) =>
      env.DB.prepare("UPDATE millrace_outbox SET due_at = ?2, sent_at = sent_at - ?3 WHERE id = ?1").bind(name, Date.now(), ms).run();
    await keeperOf(probeEnv).round();
    await pass(10_000);
    await keeperOf(probeEnv).round();
    expect(await applied(name)).toEqual([]);
    await pass(15_000);
    await keeperOf(probeEnv).round();
    expect(await until(() => applied(name), isOnce)).toEqual(once);
    await env.DB.prepare("DELETE FROM millrace_outbox WHERE id = ?1").bind(name).run();
  });

  it("W24 an event with an invalid payload by reference becomes a dead letter; a waiting run gets the next valid event", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "wait", name: "answer", subject: name }]);
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", instanceId),
      (found) => found.length > 0,
    );
    const byReference = async (payload: unknown) => {
      const { payload_inline: _, ...envelope } = event("probe.signal", name, null);
      const path = `payloads/acme/${fresh()}/${ids.fingerprint(payload)}`;
      await probeEnv.PAYLOADS.put(path, JSON.stringify(payload));
      return { ...envelope, payload_ref: `r2://${path}` };
    };
    const wrong = await byReference({ about: name, worth: "x" });
    expect(await deliver("probe-events", [wrong])).toEqual({ acked: 1, retried: 0 });
    const letters = await rows("SELECT state, reason FROM millrace_dead_letters WHERE idempotency_key = ?1", wrong.idempotency_key);
    expect(letters).toEqual([{ state: "open", reason: "invalid_payload" }]);
    await deliver("probe-events", [await byReference({ about: name, value: "right" })]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("an event of an unknown type becomes a dead letter at once, and the rest of its batch continues", async () => {
    const name = fresh();
    const unknown = { ...event("probe.done", name, {}), message_type: "probe.dnoe" };
    expect(await deliver("probe-events", [unknown, event("probe.done", name, { name, step: "s" })])).toEqual({ acked: 2, retried: 0 });
    expect(await until(() => applied(name), isOnce)).toEqual(once);
    expect(await rows("SELECT reason, error FROM millrace_dead_letters WHERE idempotency_key = ?1", unknown.idempotency_key)).toEqual([
      { reason: "unknown_message_type", error: expect.stringContaining('Did you mean "probe.done"?') },
    ]);
  });
});

describe("Waits", () => {
  const waiting = (name: string) =>
    start(name, [
      { do: "wait", name: "answer", subject: name },
      { do: "commit", name: "after" },
    ]);

  it("W24 a waiting run that gets an event twice continues once", async () => {
    const name = fresh();
    const { instanceId } = await waiting(name);
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    const answer = event("probe.signal", name, { about: name, value: "yes" });
    await deliver("probe-events", [answer, answer]);
    await deliver("probe-events", [answer]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await probeOutput(instanceId)).toEqual({ outputs: [{ about: name, value: "yes" }, "committed"] });
  });

  it("W24 a run accepts an event that arrived before the wait began", async () => {
    const name = fresh();
    dieAt("A03 accept committed, not enqueued");
    await waiting(name).catch(() => undefined);
    await deliver("probe-events", [event("probe.signal", name, { about: name, value: "early" })]);
    await keeperRound();
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
    expect(await probeOutput(row?.id ?? "")).toMatchObject({ outputs: [{ value: "early" }, "committed"] });
  });

  it("W24 a run that is restarted after an event gets the same event again, and does not consume a second one", async () => {
    const name = fresh();
    const { instanceId } = await waiting(name);
    await reaches(instanceId, "waiting");
    await deliver("probe-events", [event("probe.signal", name, { about: name, value: "first" })]);
    await reaches(instanceId, "complete");
    await deliver("probe-events", [event("probe.signal", name, { about: name, value: "second" })]);
    expect(await restarted(instanceId)).toBe("complete");
    expect(await probeOutput(instanceId)).toMatchObject({ outputs: [{ value: "first" }, "committed"] });
  });

  it("a run that waits twice gets two events in their order", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "wait", name: "one", subject: name },
      { do: "wait", name: "two", subject: name },
    ]);
    await reaches(instanceId, "waiting");
    await deliver("probe-events", [event("probe.signal", name, { about: name, value: "1" })]);
    await deliver("probe-events", [event("probe.signal", name, { about: name, value: "2" })]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await probeOutput(instanceId)).toMatchObject({ outputs: [{ value: "1" }, { value: "2" }] });
  });

  it("a run that waits for an event without a route fails at once, and the error names the route to add", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "wait-unrouted", name: "answer", subject: name }]);
    expect(await reaches(instanceId, "errored", "waiting", "complete")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "null")).toMatchObject({
      step: "answer",
      code: "config_invalid",
      attempts: 1,
      message: expect.stringContaining('No route signals "probe.done"'),
    });
    expect(await rows("SELECT name FROM millrace_waits WHERE instance_id = ?1", instanceId)).toEqual([]);
  });

  it("the keeper delivers an event to a waiting run when the wake-up call was lost", async () => {
    const name = fresh();
    const { instanceId } = await waiting(name);
    await reaches(instanceId, "waiting");
    dieAt("signal stored, instance not notified");
    await deliver("probe-events", [event("probe.signal", name, { about: name, value: "kept" })]);
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });
});
