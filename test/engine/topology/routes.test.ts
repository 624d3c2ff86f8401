import { env } from "cloudflare:workers";
import { call, defineConsumer, type Envelope, notRetryable, on } from "millrace";
import { describe, expect, it, vi } from "vitest";
import { confirmToSenders } from "../../../packages/millrace/src/topology/hooks.ts";
import { ProbeRouted } from "../../probe/messages.ts";
import { routing } from "../../probe/routing.ts";
import { app } from "../../probe/worker.ts";
import { deliver, event, fresh, rows, until } from "../harness.ts";
import { routed as consumerOf, keepRow, lettersAbout, kept as rowsAbout } from "../intake/routed.ts";

const routed = (name: string, payload: { parts?: string[]; shared?: string } = {}) =>
  event("probe.routed", name, { name, parts: [], ...payload });
/** An event with its own outbox: its sender keeps the event until the engine confirms it. */
const keptBySender = (name: string, payload = {}): Envelope => ({ ...routed(name, payload), outbox: "sender" });
const kept = (kind: string, name: string) => rows<{ id: string }>("SELECT id FROM probe_rows WHERE kind = ?1 AND name = ?2", kind, name);
const confirmed = (message: Envelope) =>
  routing.confirmed.filter(({ idempotency_key }) => idempotency_key === message.idempotency_key).length;

/** Runs a function, and returns the SQL texts of each batch that it sends to the database. */
async function roundTrips(act: () => Promise<unknown>): Promise<string[][]> {
  const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
  await act();
  const trips = batch.mock.calls.map(([statements]) => statements.map((statement) => JSON.stringify(statement)));
  batch.mockRestore();
  return trips;
}

describe("project", () => {
  it("a route's project writes the rows of a batch in one statement, together with the engine's own writes", async () => {
    const names = Array.from({ length: 20 }, () => fresh());
    const events = names.map((name) => routed(name));
    const all = await roundTrips(async () => expect(await deliver("probe-events", events)).toEqual({ acked: 20, retried: 0 }));
    // Other instances may write at the same time.
    const trips = all.filter((texts) => events.some(({ idempotency_key: key }) => texts.join().includes(key)));
    expect(trips).toHaveLength(1);
    expect(trips[0]?.filter((statement) => statement.includes("INTO probe_rows"))).toHaveLength(1);
    expect(trips[0]?.some((statement) => statement.includes("DELETE FROM millrace_outbox"))).toBe(true);
    for (const [index, name] of names.entries()) expect(await kept("project", name)).toEqual([{ id: events[index]?.idempotency_key }]);
  });

  it("a route's project writes one row per event, for any number and order of deliveries", async () => {
    const name = fresh();
    const [one, two] = [routed(name), routed(name)];
    await deliver("probe-events", [two, one, two]);
    await deliver("probe-events", [one]);
    expect(await kept("project", name)).toHaveLength(2);
  });
});

describe("call", () => {
  it("a route's call that throws returns only its own event to the queue, and the rest of the batch is settled", async () => {
    const names = [fresh(), fresh(), fresh()] as const;
    const events = names.map((name) => keptBySender(name, { parts: ["a"] }));
    routing.failing.add(names[1]);
    expect(await deliver("probe-events", events)).toEqual({ acked: 2, retried: 1 });
    expect(await Promise.all(names.map(async (name) => (await kept("project", name)).length))).toEqual([1, 0, 1]);
    expect(await rows("SELECT id FROM millrace_instances WHERE subject = ?1", names[1])).toEqual([]);
    expect(events.map(confirmed)).toEqual([1, 0, 1]);

    routing.failing.delete(names[1]);
    expect(await deliver("probe-events", [events[1]], 2)).toEqual({ acked: 1, retried: 0 });
    expect(await kept("project", names[1])).toHaveLength(1);
    expect(events.map(confirmed)).toEqual([1, 1, 1]);
  });
});

describe("call after the commit", () => {
  it("a call after the commit that throws makes its event a dead letter, and a replay repeats only that call", async () => {
    const [name, neighbour] = [fresh(), fresh()];
    const failing = new Set([name]);
    const called: string[] = [];
    const late = call<{ name: string }>(
      async (told) => {
        called.push(told.payload.name);
        expect(await rowsAbout(told.payload.name)).toHaveLength(1);
        if (failing.has(told.payload.name)) throw notRetryable("The charge has another amount.");
      },
      { after: "commit" },
    );
    const consume = consumerOf(on(ProbeRouted, keepRow, late));
    const events = [name, neighbour].map((one) => event("probe.routed", one, { name: one }));
    expect(await consume(events)).toEqual({ acked: 2, retried: 0 });
    expect(called.toSorted()).toEqual([name, neighbour].toSorted());
    expect(await lettersAbout(name)).toMatchObject([{ reason: "not_retryable", error: "The charge has another amount." }]);
    expect(await lettersAbout(neighbour)).toEqual([]);

    failing.clear();
    // A replay sends the event with this field.
    expect(await consume([{ ...events[0], replay: crypto.randomUUID() }])).toEqual({ acked: 1, retried: 0 });
    expect([await rowsAbout(name), called.filter((one) => one === name)]).toMatchObject([[{}], [name, name]]);
  });

  it("a call after the commit is refused for a consumer with a gap rule, which does not repeat an accepted event", () => {
    const routes = [
      on(
        ProbeRouted,
        call(() => undefined, { after: "commit" }),
      ),
    ];
    expect(() => defineConsumer({ queue: ProbeRouted.queue, sequence: { gap: "retry" }, routes })).toThrow('call(…, { after: "commit" })');
  });
});

describe("sendEach", () => {
  it.each([
    ["none", []],
    ["one", ["a"]],
    ["many", ["a", "b", "c", "d"]],
    ["equal keys once", ["a", "a", "b"]],
  ])("sendEach with %s sends each command once, for any number of deliveries of the event", async (_, parts) => {
    const name = fresh();
    const message = routed(name, { parts });
    const keys = [...new Set(parts)].map((part) => ({ idempotency_key: `${name}/${part}` }));
    for (let time = 1; time <= 3; time++) expect(await deliver("probe-events", [message, message])).toEqual({ acked: 2, retried: 0 });
    expect(await rows("SELECT idempotency_key FROM millrace_instances WHERE subject = ?1 ORDER BY idempotency_key", name)).toEqual(keys);
    const done = await until(
      () => kept("command", name),
      (found) => found.length >= keys.length,
    );
    expect(done).toHaveLength(keys.length);
    expect(await rows("SELECT reason FROM millrace_dead_letters WHERE idempotency_key LIKE ?1", `${name}/%`)).toEqual([]);
  });
});

it("the causation id of a command is cut between characters when its event has a long key", async () => {
  const name = fresh();
  const key = "k".repeat(299);
  expect(await deliver("probe-events", [event("probe.routed", name, { name, parts: ["a"] }, `${key}😀`)])).toEqual({
    acked: 1,
    retried: 0,
  });
  expect(await rows("SELECT causation_id FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ causation_id: key }]);
  expect(
    await until(
      () => kept("command", name),
      (found) => found.length > 0,
    ),
  ).toHaveLength(1);
});

describe("once", () => {
  it("a value of `once` is shared by the calls of one batch, and created again for the next batch", async () => {
    const shared = fresh("settings");
    const events = Array.from({ length: 5 }, () => routed(fresh(), { shared }));
    await deliver("probe-events", events);
    expect(routing.made.get(shared)).toBe(1);
    await deliver("probe-events", [routed(fresh(), { shared })]);
    expect(routing.made.get(shared)).toBe(2);
  });

  it("values of `once` with different names are separate", async () => {
    const [one, two] = [fresh("settings"), fresh("settings")];
    await deliver("probe-events", [routed(fresh(), { shared: one }), routed(fresh(), { shared: two })]);
    expect([routing.made.get(one), routing.made.get(two)]).toEqual([1, 1]);
  });

  it("a value of `once` that failed is created again for the next caller, and all calls share the new value", async () => {
    const shared = fresh("settings");
    routing.failFirst.set(shared, 1);
    expect(await deliver("probe-events", [routed(fresh(), { shared }), routed(fresh(), { shared })])).toEqual({ acked: 2, retried: 0 });
    expect(routing.made.get(shared)).toBe(2);
  });

  it("calls that use a permanently failing value of `once` return their events to the queue", async () => {
    const shared = fresh("settings");
    routing.failFirst.set(shared, 99);
    expect(await deliver("probe-events", [routed(fresh(), { shared }), routed(fresh())])).toEqual({ acked: 1, retried: 1 });
  });
});

describe("onConfirmed", () => {
  it("onConfirmed gets the accepted events and the dead letters that a sender keeps in its own outbox, and no other messages", async () => {
    const [good, bad, ours] = [keptBySender(fresh()), { ...keptBySender(fresh()), payload_inline: { name: 7 } }, routed(fresh())];
    expect(await deliver("probe-events", [good, bad, ours, "not an envelope"])).toEqual({ acked: 4, retried: 0 });
    expect([confirmed(good), confirmed(bad), confirmed(ours)]).toEqual([1, 1, 0]);
    expect(await rows("SELECT reason FROM millrace_dead_letters WHERE idempotency_key = ?1", bad.idempotency_key)).toEqual([
      { reason: "invalid_payload" },
    ]);
  });

  it("onConfirmed gets events of a sender's own outbox that used up their tries, and no messages of the engine's outbox", async () => {
    const message = keptBySender(fresh());
    const command = {
      ...event("probe.done", "x", { name: fresh(), steps: [] }),
      kind: "command",
      message_type: "probe.requested",
    } as const;
    await deliver("probe-events-dlq", [message]);
    await deliver("probe-commands-dlq", [command]);
    expect([confirmed(message), confirmed(command)]).toEqual([1, 0]);
  });

  it("an onConfirmed that throws loses nothing: its event is accepted, and is confirmed at the next delivery", async () => {
    const name = fresh();
    const [message, exhausted] = [keptBySender(name), keptBySender(fresh())];
    routing.confirmFails = true;
    expect(await deliver("probe-events", [message])).toEqual({ acked: 1, retried: 0 });
    expect(await deliver("probe-events-dlq", [exhausted])).toEqual({ acked: 1, retried: 0 });
    await expect(confirmToSenders(app.hooks, env, [message])).resolves.toBeUndefined();
    routing.confirmFails = false;
    expect(await kept("project", name)).toHaveLength(1);
    expect(await rows("SELECT reason FROM millrace_dead_letters WHERE idempotency_key = ?1", exhausted.idempotency_key)).toEqual([
      { reason: "exhausted" },
    ]);
    expect(confirmed(message)).toBe(0);
    await deliver("probe-events", [message]);
    expect(confirmed(message)).toBe(1);
    expect(await kept("project", name)).toHaveLength(1);
  });
});
