import { env } from "cloudflare:workers";
import { call, fingerprintOf, on, project, type Route, sendEach } from "millrace";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { routesOf, startsOf } from "../probe/consumers.ts";
import { ProbeFollow, ProbeRouted } from "../probe/messages.ts";
import { routedRow } from "../probe/routing.ts";
import { app } from "../probe/worker.ts";
import { followProbe } from "../probe/workflows.ts";
import { deliver, envelopeOf, event, fresh, probeEnv, reaches, rows, start, until } from "./harness.ts";

/** A consumer of `probe-events` with routes of the test's own. */
function routed(...routes: Route[]) {
  const consume = dispatch(catalog({ consumers: [startsOf(followProbe), routesOf(...routes)] }));
  return (bodies: unknown[], attempts = 1) => deliverTo((batch) => consume(batch, probeEnv as never), "probe-events", bodies, attempts);
}

const keepRow = project<{ name: string }>(({ payload, envelope }) => routedRow(envelope.idempotency_key, payload.name));
const kept = (name: string) => rows("SELECT id FROM probe_rows WHERE name = ?1", name);
const lettersAbout = (name: string) =>
  rows<{ reason: string; error: string; attempts: number }>(
    "SELECT reason, error, attempts FROM dead_letters WHERE body LIKE ?1",
    `%${name}%`,
  );

describe("A row that the database refuses", () => {
  it("Q08 one of a hundred: 99 are taken in, and it is a letter at once, with the database's own words", async () => {
    const name = fresh();
    const one = (row: string) => event("lab.event" as never, name, { name, row });
    const events = Array.from({ length: 99 }, () => one("lab"));
    expect(await deliver("probe-events", [...events.slice(0, 40), one("poison"), ...events.slice(40)])).toEqual({ acked: 100, retried: 0 });
    expect(await kept(name)).toHaveLength(99);
    expect(await lettersAbout(name)).toMatchObject([
      { attempts: 1, error: expect.stringContaining("NOT NULL constraint failed: probe_rows.kind") },
    ]);
  });

  it.each([
    ["a BigInt", { text: "SELECT 1 FROM json_each(?1)", row: { id: 1n } }],
    ["no row at all", false],
    ["of several statements", { text: "SELECT 1; SELECT 2", row: {} }],
    ["of a statement that takes no rows", { text: "UPDATE probe_rows SET kind = 'x' WHERE id = 'y'", row: {} }],
    ["of a statement that takes more", { text: "SELECT ?2 FROM json_each(?1)", row: {} }],
  ])("Q08 that is %s is the trouble of its own event alone", async (_, row) => {
    const name = fresh();
    const rowOf = project<{ name: string }>(({ payload, envelope }) =>
      payload.name.endsWith("bad") ? (row as never) : routedRow(envelope.idempotency_key, payload.name),
    );
    const consume = routed(on(ProbeRouted, rowOf));
    const events = [name, `${name}/bad`, name].map((one) => event("probe.routed", name, { name: one }));
    expect(await consume(events)).toEqual({ acked: row === false ? 3 : 2, retried: row === false ? 0 : 1 });
    expect(await kept(name)).toHaveLength(2);
  });

  it("Q08 while the database is in trouble nothing is halved: the batch comes back as it is", async () => {
    const name = fresh();
    const writes = troubled(name, "D1_ERROR: Network connection lost, for good");
    const events = Array.from({ length: 8 }, () => event("probe.routed", name, { name }));
    expect(await deliver("probe-events", events)).toEqual({ acked: 0, retried: 8 });
    // One write, repeated over what may be a blip.
    expect(writes()).toBeLessThanOrEqual(5);
  });

  it("Q08 a database that asks for less makes no letters: what had its last try begins anew behind the others", async () => {
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

  /** Lets the database fail for writes about a name, and counts them. */
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

describe("A handler that hangs", () => {
  it("Q09 holds up its own event alone: the others are taken in before it is given up, and it comes back", async () => {
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

  it("Q09 at its last attempt is a letter that says what was waited for", async () => {
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
      { reason: "route_timeout", attempts: 3, error: expect.stringContaining("did not answer within 20 ms") },
    ]);
  });
});

describe("Events that lead to thousands of commands", () => {
  it("Q08 are committed in writes that the database and an isolate bear, and sent once each", async () => {
    const name = fresh();
    const note = "n".repeat(2000);
    const parts = Array.from({ length: 100 }, (_, part) => `${part}`);
    const sent = swallowed(name);
    const writes = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    onTestFinished(() => writes.mockRestore());
    onTestFinished(async () => void (await env.DB.prepare("DELETE FROM instances WHERE subject = ?1").bind(name).run()));
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
    expect(await rows("SELECT count(*) AS n FROM instances WHERE subject = ?1", name)).toEqual([{ n: 5000 }]);
    expect(new Set(sent).size).toBe(5000);
    const sizes = writes.mock.calls.map(([statements]) => JSON.stringify(statements).length).filter((size) => size > 100_000);
    expect(Math.max(...sizes)).toBeLessThan(4_000_000);
  });

  /** The keys of commands about a name, which get no further than their queue. */
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

describe("A message that goes no further", () => {
  /** A command as an outside producer would put it on the queue. */
  const command = (key: string, payload: object) =>
    ({ ...event("probe.done", key, payload, key), kind: "command", message_type: "probe.requested", schema_version: 2 }) as const;

  it.each(["probe-commands", "probe-commands-dlq"])(
    "I16 on %s, with half a character under a key that is taken: it and its neighbours are letters",
    async (queue) => {
      const name = fresh();
      const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }]);
      expect(await reaches(instanceId, "complete")).toBe("complete");
      const cut = command(name, { name, steps: [], note: "cut \ud83d" });
      const neighbours = [{ neighbour: name }, { ...command(fresh(), {}), schema_version: 0, subject: name }];
      expect(await deliver(queue, [cut, ...neighbours])).toEqual({ acked: 3, retried: 0 });
      expect(await lettersAbout(name)).toHaveLength(3);
    },
  );

  it.each([
    ["1e999, which is read as Infinity,", JSON.parse("1e999"), "Refused at payload_inline.number: Infinity, which is no number in JSON"],
    ["NaN", Number.NaN, "Refused at payload_inline.number: NaN, which is no number in JSON"],
    ["a BigInt", 10n ** 30n, "Refused at payload_inline.number: 1000000000000000000000000000000, which is no number in JSON"],
    ["half a character", "\ud83d", "Refused at payload_inline.number: half of a surrogate pair"],
  ])(
    "Q02 with %s is a letter at its first attempt, on a queue of commands or events, and its neighbours go on",
    async (_, number, error) => {
      const name = fresh();
      const good = command(name, { name, steps: [] });
      const bad = command(`${name}/bad`, { name, steps: [], number });
      expect(await deliver("probe-commands", [good, bad])).toEqual({ acked: 2, retried: 0 });
      expect(await rows("SELECT deliveries FROM instances WHERE idempotency_key = ?1", name)).toEqual([{ deliveries: 1 }]);
      expect(await lettersAbout(name)).toMatchObject([{ reason: "invalid_payload", attempts: 1, error: expect.stringContaining(error) }]);
      const about = fresh();
      const said = [about, "bad"].map((value, index) => event("probe.signal", about, { about, value, ...(index === 1 && { number }) }));
      expect(await deliver("probe-events", said)).toEqual({ acked: 2, retried: 0 });
      expect(await rows("SELECT 1 FROM signals WHERE subject = ?1", about)).toHaveLength(1);
      expect(await lettersAbout(about)).toMatchObject([{ reason: "invalid_payload", attempts: 1, error: expect.stringContaining(error) }]);
      await env.DB.prepare("DELETE FROM signals WHERE subject = ?1").bind(about).run();
    },
  );

  it.each([
    ["a BigInt", 10n],
    ["a cycle", cycle()],
    ["an object with a secret", { password: "hunter2" }],
    ["50,000 characters", "hunter2".padStart(50_000)],
  ])("Q02 with %s where its names should be is a letter, and the log line about it tells none of that", async (_, subject) => {
    const name = fresh();
    const said = vi.spyOn(console, "warn");
    onTestFinished(() => said.mockRestore());
    const bad = { ...command(name, {}), subject, message_type: subject, schema_version: 0 };
    expect(await deliver("probe-commands", [bad, command(`${name}/good`, { name, steps: [] })])).toEqual({ acked: 2, retried: 0 });
    expect(await rows("SELECT reason FROM dead_letters WHERE idempotency_key = ?1", name)).toHaveLength(1);
    const [line] = said.mock.calls.map(String).filter((text) => text.includes(name));
    expect(JSON.parse(line ?? "null")).toMatchObject({ log: "delivery", outcome: "captured", idempotency_key: name });
    expect(line).not.toContain("hunter2");
    expect(line?.length).toBeLessThan(1500);
  });

  it.each([
    ["a list of ten million holes", "A object that holds more than 500000 values", () => holes(10_000_000)],
    ["one object two to the thirtieth times", "A object that holds more than 500000 values", doubled],
    ["a megabyte", "A object that has 1000", () => "x".repeat(1_000_000)],
    ["wide characters in a megabyte", "A object that has 18", () => "\u0001".repeat(300_000)],
  ])("Q02 with %s is a letter that describes it, and its neighbours go on", async (_, kept, large) => {
    const name = fresh();
    const bad = { ...command(name, {}), subject: large(), schema_version: 0 };
    expect(await deliver("probe-commands", [bad, command(`${name}/good`, { name, steps: [] })])).toEqual({ acked: 2, retried: 0 });
    const letters = await rows<{ reason: string; body: string }>("SELECT reason, body FROM dead_letters WHERE idempotency_key = ?1", name);
    expect(letters).toMatchObject([{ reason: expect.stringContaining("invalid_"), body: expect.stringContaining(kept) }]);
    expect(await rows("SELECT deliveries FROM instances WHERE idempotency_key = ?1", `${name}/good`)).toEqual([{ deliveries: 1 }]);
  });

  it("Q08 whose letter the database refuses comes back alone: those of its neighbours are stored", async () => {
    const name = fresh();
    const prototype = Object.getPrototypeOf(env.DB) as D1Database;
    const real = prototype.batch;
    const spy = vi.spyOn(prototype, "batch").mockImplementation(function (this: D1Database, statements) {
      const refused = JSON.stringify(statements).includes(`${name}/refused`);
      return refused ? Promise.reject(new Error("D1_ERROR: string or blob too big: SQLITE_TOOBIG")) : real.call(this, statements);
    } as typeof real);
    onTestFinished(() => spy.mockRestore());
    const messages = ["one", "two", "refused", "three"].map((mark) => ({ mark: `${name}/${mark}` }));
    expect(await deliver("probe-events", messages)).toEqual({ acked: 3, retried: 1 });
    expect(await deliver("probe-events-dlq", messages)).toEqual({ acked: 3, retried: 1 });
    expect(await lettersAbout(name)).toHaveLength(3);
  });

  it("Q02 with 10,000 fields that nobody knows is a letter of fifty issues", async () => {
    const name = fresh();
    const unknown = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`${index}`, 0]));
    expect(await deliver("probe-events", [{ ...command(name, {}), ...unknown }])).toEqual({ acked: 1, retried: 0 });
    const [letter] = await rows<{ issues: string }>("SELECT issues FROM dead_letters WHERE idempotency_key = ?1", name);
    expect(JSON.parse(letter?.issues ?? "[]")).toHaveLength(50);
  });

  it("Q09 whose call throws what has no text comes back, and its neighbours are settled", async () => {
    const name = fresh();
    const handle = routed(
      on(
        ProbeRouted,
        call(({ payload }) => (payload.name === name ? Promise.reject(Object.create(null)) : Promise.resolve())),
      ),
    );
    const events = [name, fresh()].map((one) => event("probe.routed", one, { name: one }));
    expect(await handle(events)).toEqual({ acked: 1, retried: 1 });
    expect(await handle(events.slice(0, 1), 3)).toEqual({ acked: 1, retried: 0 });
    expect(await lettersAbout(name)).toMatchObject([{ reason: "exhausted", error: "A thrown object that has no text." }]);
  });

  it("I16 one of which the platform does not say whether it runs comes back alone", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [], { delaySeconds: 600 });
    const refused = { ...(await envelopeOf(instanceId)), payload_inline: { name, steps: "none" } };
    await env.DB.prepare("UPDATE instances SET envelope = ?2, fingerprint = ?3 WHERE id = ?1")
      .bind(instanceId, JSON.stringify(refused), fingerprintOf(refused.payload_inline))
      .run();
    const PROBE = { get: () => Promise.reject(new Error("Network connection lost.")) };
    const consume = (batch: MessageBatch) => dispatch(app)(batch, { ...probeEnv, PROBE } as never);
    expect(await deliverTo(consume, "probe-commands", [refused, { neighbour: name }])).toEqual({ acked: 1, retried: 1 });
    expect(await lettersAbout(name)).toMatchObject([{ reason: "invalid_envelope" }]);
    await env.DB.prepare("UPDATE instances SET status = 'terminated', check_at = NULL WHERE id = ?1").bind(instanceId).run();
  });
});

/** A value that has no JSON text. */
function cycle(): object {
  const itself: { itself?: object } = {};
  itself.itself = itself;
  return itself;
}

/** A list without items that says it has so many. */
function holes(length: number): unknown[] {
  const list: unknown[] = [];
  list.length = length;
  return list;
}

/** A few objects that would be a thousand million, written out. */
function doubled(): unknown {
  let one: unknown = [];
  for (let level = 0; level < 30; level++) one = [one, one];
  return one;
}

it.each(["hangs", "has put away more than is read"])(
  "Q09 A bucket that %s for one event's payload holds up that event alone",
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
    const letters = await rows<{ reason: string }>("SELECT reason FROM dead_letters WHERE body LIKE ?1", `%${name}%`);
    expect(letters).toEqual(how === "hangs" ? [] : [{ reason: "payload_too_large" }]);
  },
);
