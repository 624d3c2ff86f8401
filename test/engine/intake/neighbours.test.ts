import { env } from "cloudflare:workers";
import { call, on, project, sendEach } from "millrace";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ProbeFollow, ProbeRouted } from "../../probe/messages.ts";
import { routedRow } from "../../probe/routing.ts";
import { deliver, envelopeOf, event, fresh, probeEnv, rows, start, until } from "../harness.ts";
import { keepRow, kept, lettersAbout, routed } from "./routed.ts";

describe("Refused rows", () => {
  it("Q08 one event of a hundred with a row that the database refuses becomes a dead letter at once, and 99 are accepted", async () => {
    const name = fresh();
    const one = (row: string) => event("lab.event" as never, name, { name, row });
    const events = Array.from({ length: 99 }, () => one("lab"));
    expect(await deliver("probe-events", [...events.slice(0, 40), one("poison"), ...events.slice(40)])).toEqual({ acked: 100, retried: 0 });
    expect(await kept(name)).toHaveLength(99);
    expect(await lettersAbout(name)).toMatchObject([
      { attempts: 1, error: expect.stringContaining("NOT NULL constraint failed: probe_rows.kind") },
    ]);
  });

  it("Q08 a command of a tenant that lives in another cell is deferred, and its neighbours start", async () => {
    const [name, tenant] = [fresh(), fresh("left").toLowerCase()];
    await env.DB.prepare("INSERT INTO millrace_moved (tenant_id, cell) VALUES (?, 2)").bind(tenant).run();
    const message = await envelopeOf((await start(name, [])).instanceId);
    const keys = ["a", "b", "c", "d", "e"].map((key) => `${name}/${key}`);
    const bodies = keys.map((key, at) => ({ ...message, idempotency_key: key, tenant_id: at === 2 ? tenant : message.tenant_id }));
    expect(await deliver("probe-commands", bodies)).toEqual({ acked: 4, retried: 1 });
    const started = await rows("SELECT idempotency_key FROM millrace_instances WHERE idempotency_key LIKE ?1 ORDER BY 1", `${name}/%`);
    expect(started.map((row) => row.idempotency_key)).toEqual(keys.toSpliced(2, 1));
  });

  it.each([
    ["a BigInt", { text: "SELECT 1 FROM json_each(?1)", row: { id: 1n } }],
    ["half a character", { text: "SELECT 1 FROM json_each(?1)", row: { id: "\ud83d" } }],
    ["a missing row", false],
    ["several statements", { text: "SELECT 1; SELECT 2", row: {} }],
    ["a statement without a row parameter", { text: "UPDATE probe_rows SET kind = 'x' WHERE id = 'y'", row: {} }],
    ["a statement with a second parameter", { text: "SELECT ?2 FROM json_each(?1)", row: {} }],
  ])("Q08 a route that returns %s as a row fails only its own event", async (_, row) => {
    const name = fresh();
    const rowOf = project<{ name: string }>(({ payload, envelope }) =>
      payload.name.endsWith("bad") ? (row as never) : routedRow(envelope.idempotency_key, payload.name),
    );
    const consume = routed(on(ProbeRouted, rowOf));
    const events = [name, `${name}/bad`, name].map((one) => event("probe.routed", name, { name: one }));
    expect(await consume(events)).toEqual({ acked: row === false ? 3 : 2, retried: row === false ? 0 : 1 });
    expect(await kept(name)).toHaveLength(2);
  });

  it("Q08 a batch is redelivered as a whole after a database error, without a separate write for each event", async () => {
    const name = fresh();
    const writes = troubled(name, "D1_ERROR: Network connection lost, for good");
    const events = Array.from({ length: 8 }, () => event("probe.routed", name, { name }));
    expect(await deliver("probe-events", events)).toEqual({ acked: 0, retried: 8 });
    // One write and its repeats after a short failure.
    expect(writes()).toBeLessThanOrEqual(5);
  });

  it("Q08 an event at its last try is requeued while the database is overloaded, and becomes no dead letter", async () => {
    const name = fresh();
    const writes = troubled(name, "D1_ERROR: D1 DB is overloaded. Requests queued for too long.");
    const send = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue, "send").mockResolvedValue(undefined as never);
    onTestFinished(() => send.mockRestore());
    const message = event("probe.routed", name, { name });
    expect(await deliver("probe-events", [message], 3)).toEqual({ acked: 1, retried: 0 });
    expect(writes()).toBe(1);
    expect(send.mock.calls.map(([body]) => body)).toEqual([message]);
    expect(await lettersAbout(name)).toEqual([]);
  });

  /** Makes the database's writes for a name fail, and counts them. */
  function troubled(name: string, message: string): () => number {
    const prototype = Object.getPrototypeOf(env.DB) as D1Database;
    const real = prototype.batch;
    let failed = 0;
    const spy = vi.spyOn(prototype, "batch").mockImplementation(function (this: D1Database, statements) {
      if (!JSON.stringify(statements).includes(name)) return real.call(this, statements);
      failed++;
      return Promise.reject(new Error(message));
    });
    onTestFinished(() => spy.mockRestore());
    return () => failed;
  }
});

describe("Hanging routes", () => {
  it("Q09 a route that hangs delays only its own event, which is redelivered after the timeout", async () => {
    const [name, stuck] = [fresh(), fresh("stuck")];
    const hang = call<{ name: string }>(async ({ payload }) => payload.name === stuck && new Promise(() => undefined), { timeout: 1500 });
    const handle = routed(on(ProbeRouted, keepRow, hang));
    const settled = handle([event("probe.routed", stuck, { name: stuck }), event("probe.routed", name, { name })]);
    let over = false;
    void settled.then(() => (over = true));
    expect(
      await until(
        () => kept(name),
        (found) => found.length === 1,
      ),
    ).toHaveLength(1);
    expect(over).toBe(false);
    expect(await settled).toEqual({ acked: 1, retried: 1 });
    expect(await kept(stuck)).toEqual([]);
  });

  it("Q09 an event whose route hangs at its last attempt becomes a dead letter that names the timeout", async () => {
    const stuck = fresh("stuck");
    const handle = routed(
      on(
        ProbeRouted,
        keepRow,
        call(() => new Promise(() => undefined), { timeout: 20 }),
      ),
    );
    expect(await handle([event("probe.routed", stuck, { name: stuck })], 3)).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(stuck)).toMatchObject([
      { reason: "route_timeout", attempts: 3, error: expect.stringContaining("did not finish within 20 ms") },
    ]);
  });
});

describe("Many commands", () => {
  it("Q08 the 5,000 commands of fifty events are committed in writes within the limits of the database, and sent once each", async () => {
    const name = fresh();
    const note = "n".repeat(2000);
    const parts = Array.from({ length: 100 }, (_, part) => `${part}`);
    const sent = swallowed(name);
    const writes = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    onTestFinished(() => writes.mockRestore());
    onTestFinished(async () => void (await env.DB.prepare("DELETE FROM millrace_instances WHERE subject = ?1").bind(name).run()));
    const handle = routed(
      on(
        ProbeRouted,
        sendEach(ProbeFollow, ({ payload, envelope }) =>
          parts.map((part) => ({ name: payload.name, step: `${envelope.idempotency_key}/${part}/${note.slice(0, 300)}` })),
        ),
      ),
    );
    const events = Array.from({ length: 50 }, () => event("probe.routed", name, { name }));
    expect(await handle(events)).toEqual({ acked: 50, retried: 0 });
    expect(await rows("SELECT count(*) AS n FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ n: 5000 }]);
    expect(new Set(sent).size).toBe(5000);
    const sizes = writes.mock.calls.map(([statements]) => JSON.stringify(statements).length).filter((size) => size > 100_000);
    expect(Math.max(...sizes)).toBeLessThan(4_000_000);
  });

  /** Drops the commands for a name when they are sent to their queue. Returns their keys. */
  function swallowed(name: string): string[] {
    const queue = Object.getPrototypeOf(probeEnv.PROBE_EVENTS) as Queue;
    const real = queue.sendBatch;
    const keys: string[] = [];
    const spy = vi.spyOn(queue, "sendBatch").mockImplementation(async function (this: Queue, ...args) {
      const bodies = [...args[0]].map(({ body }) => body as { subject: string; idempotency_key: string });
      if (!bodies.some(({ subject }) => subject === name)) return real.apply(this, args);
      keys.push(...bodies.map(({ idempotency_key }) => idempotency_key));
      return { metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } } as never;
    });
    onTestFinished(() => spy.mockRestore());
    return keys;
  }
});

it.each(["hangs", "returns an object above the size limit"])(
  "Q09 a payload bucket that %s for one event affects only that event",
  async (how) => {
    const name = fresh("ref");
    const ref = `payloads/acme/outside/${name}`;
    await env.PAYLOADS.put(ref, JSON.stringify({ about: name, value: how === "hangs" ? "v" : "v".repeat(5_000_000) }));
    const prototype = Object.getPrototypeOf(env.PAYLOADS);
    const { get } = prototype;
    onTestFinished(() => {
      prototype.get = get;
    });
    if (how === "hangs")
      prototype.get = function (path: string, ...rest: unknown[]) {
        return path === ref ? new Promise(() => undefined) : get.call(this, path, ...rest);
      };
    const { payload_inline: _, ...bare } = event("probe.signal", name, {});
    const neighbour = fresh("near");
    const settled = await deliver("probe-events", [
      { ...bare, payload_ref: `r2://${ref}` },
      event("probe.done", neighbour, { name: neighbour, step: "s" }),
    ]);
    expect(settled).toEqual(how === "hangs" ? { acked: 1, retried: 1 } : { acked: 2, retried: 0 });
    const letters = await rows<{ reason: string }>("SELECT reason FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`);
    expect(letters).toEqual(how === "hangs" ? [] : [{ reason: "payload_too_large" }]);
  },
);
