import { createExecutionContext } from "cloudflare:test";
import { enqueue, enqueueOne, type Statement, sql } from "millrace";
import { expect, it } from "vitest";
import { shop } from "../../docs/examples/paid-order.ts";
import { LabRequested, labs } from "../../probe/lab.ts";
import { ProbeRequested } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, failAt, fresh, keeperRound, probeEnv, reaches, retentionPass, rows } from "../harness.ts";

const by = { tenantId: "acme", source: "test" };

/** A statement that counts its writes. */
const paid = (order: string, name = order): Statement =>
  sql`INSERT INTO probe_rows (id, kind, name) VALUES (${order}, 'paid', '1')
    ON CONFLICT (id) DO UPDATE SET name = CAST(name + 1 AS TEXT) WHERE ${name} = ${order}`;
const paidTimes = async (order: string) =>
  Number((await rows<{ name: string }>("SELECT name FROM probe_rows WHERE id = ?1", order))[0]?.name ?? 0);
const instancesOf = (order: string) => rows("SELECT status FROM millrace_instances WHERE subject = ?1 AND workflow = 'lab'", order);

/** The name of a run without steps. */
function order(): string {
  const name = fresh("order");
  labs.set(name, async () => undefined);
  return name;
}

const request = (name: string, note?: string) => ({ command: LabRequested, payload: { name, ...(note !== undefined && { note }) } });
const place = (name: string, note?: string) => enqueueOne(probeEnv, app, by, request(name, note), [paid(name)]);

it("an app's SQL statement is executed together with a new command, and not again with a repeat of the command", async () => {
  const name = order();
  const accepted = await place(name);
  expect(accepted).toMatchObject({ replayed: false });
  expect(await place(name)).toMatchObject({ replayed: true, instanceId: accepted.instanceId });
  expect(await paidTimes(name)).toBe(1);
  expect(await reaches(accepted.instanceId, "complete")).toBe("complete");
});

it("the SQL statement of equal concurrent commands is executed once", async () => {
  const name = order();
  const answers = await Promise.all([place(name), place(name), place(name)]);
  expect(answers.map(({ replayed }) => replayed).toSorted()).toEqual([false, true, true]);
  expect(await paidTimes(name)).toBe(1);
});

it("an app's SQL statement is not executed when the key of its command was used with another payload", async () => {
  const name = order();
  await enqueueOne(probeEnv, app, by, request(name));
  await expect(place(name, "another")).rejects.toMatchObject({ code: "idempotency_key_reused" });
  expect(await paidTimes(name)).toBe(0);
});

it("an app's SQL statement is not executed with a refused command", async () => {
  const name = order();
  const wrong = { command: LabRequested, payload: { name, note: 7 as unknown as string } };
  await expect(enqueueOne(probeEnv, app, by, wrong, [paid(name)])).rejects.toMatchObject({ code: "invalid_payload" });
  expect([await paidTimes(name), await instancesOf(name)]).toEqual([0, []]);
});

it("an app's SQL statement that fails prevents its command, and rolls back the statements before it", async () => {
  const name = order();
  const failing = sql`INSERT INTO probe_rows (id, kind, name) VALUES (${name}, 'paid', NULL)`;
  const asked = enqueueOne(probeEnv, app, by, request(name), [paid(`${name}/first`), failing]);
  await expect(asked).rejects.toThrow("NOT NULL constraint failed: probe_rows.name");
  expect([await paidTimes(`${name}/first`), await instancesOf(name)]).toEqual([0, []]);
});

it("an app's SQL statement is not executed again for a command with a pruned instance", async () => {
  const name = order();
  const { instanceId } = await place(name);
  await reaches(instanceId, "complete");
  await probeEnv.DB.prepare("UPDATE millrace_instances SET accepted_at = 0, updated_at = 0 WHERE id = ?1").bind(instanceId).run();
  await retentionPass();
  expect(await instancesOf(name)).toEqual([]);
  expect(await place(name)).toMatchObject({ replayed: true, status: "pruned" });
  expect(await paidTimes(name)).toBe(1);
});

it("A01 after a crash before the commit, neither the app's SQL statement nor the command is stored", async () => {
  const name = order();
  dieAt("A01 before accept commits");
  await expect(place(name)).rejects.toThrow("Died");
  expect([await paidTimes(name), await instancesOf(name)]).toEqual([0, []]);
  expect(await place(name)).toMatchObject({ replayed: false });
  expect(await paidTimes(name)).toBe(1);
});

it.each(["A03 accept committed, not enqueued", "A02 accept committed, not answered"] as const)(
  "%s: after a crash the statement and the command exist, and a repeat writes neither",
  async (point) => {
    const name = order();
    dieAt(point);
    await expect(place(name)).rejects.toThrow("Died");
    expect([await paidTimes(name), (await instancesOf(name)).length]).toEqual([1, 1]);
    const { replayed, instanceId } = await place(name);
    expect([replayed, await paidTimes(name)]).toEqual([true, 1]);
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
  },
);

it("the engine repeats a database write with a lost answer, and an app's SQL statement is executed once", async () => {
  const name = order();
  let lost = 0;
  const batch: D1Database["batch"] = async (statements) => {
    const answer = await probeEnv.DB.batch(statements);
    if (statements.length > 2 && lost++ === 0) throw new Error("D1_ERROR: Network connection lost.");
    return answer as never;
  };
  const DB = new Proxy(probeEnv.DB, { get: (db, key) => (key === "batch" ? batch : db[key as "prepare"].bind(db)) });
  const { instanceId, replayed } = await enqueueOne({ ...probeEnv, DB }, app, by, request(name), [paid(name)]);
  expect([lost > 0, replayed, await paidTimes(name)]).toEqual([true, false, 1]);
  await keeperRound();
  expect(await reaches(instanceId, "complete")).toBe("complete");
});

it("a command is refused and its SQL statement is not executed while the database is unavailable", async () => {
  const name = order();
  failAt("A01 before accept commits", new Error("D1_ERROR: Network connection lost."));
  await expect(place(name)).rejects.toThrow();
  expect([await paidTimes(name), await instancesOf(name)]).toEqual([0, []]);
});

it("the SQL statements of a batch of commands are executed if one command is new, and not if all are repeats", async () => {
  const [one, two, three] = [order(), order(), order()];
  const also = [paid(one)];
  await enqueueOne(probeEnv, app, by, request(one));
  const mixed = [request(one), request(two), { ...request(three), idempotencyKey: "" }] as const;
  expect(await enqueue(probeEnv, app, by, mixed, also)).toMatchObject([
    { replayed: true },
    { replayed: false },
    { code: "invalid_payload" },
  ]);
  expect(await paidTimes(one)).toBe(1);
  expect(await enqueue(probeEnv, app, by, mixed, also)).toMatchObject([
    { replayed: true },
    { replayed: true },
    { code: "invalid_payload" },
  ]);
  expect([await paidTimes(one), await instancesOf(three)]).toEqual([1, []]);
});

it("a handler of millrace() writes the payment and accepts the command of docs/messages.md once", async () => {
  await probeEnv.DB.exec("CREATE TABLE IF NOT EXISTS payments (order_id TEXT PRIMARY KEY, paid_at INTEGER NOT NULL) STRICT");
  const name = fresh("order");
  const env = { ...probeEnv, FULFIL_ORDER: probeEnv.PROBE, MILLRACE_QUEUE: probeEnv.PROBE_COMMANDS };
  const pay = async () => (await shop.handler.fetch(new Request(`http://shop/pay?order=${name}`), env, createExecutionContext())).json();
  const first = await pay();
  expect(first).toMatchObject({ replayed: false });
  expect(await pay()).toEqual({ ...Object(first), replayed: true });
  expect(await rows("SELECT count(*) AS paid FROM payments WHERE order_id = ?1", name)).toEqual([{ paid: 1 }]);
});

it.each([
  ["Acme Ltd", "invalid_payload", '"Acme Ltd" is not a tenant'],
  ["", "invalid_payload", "is not a tenant"],
  [undefined, "config_invalid", "{ tenantId, source }"],
])("a command for the tenant %o is refused: %s", async (tenantId, code, message) => {
  const asked = enqueueOne(probeEnv, app, { tenantId: tenantId as string, source: "test" }, request(fresh()));
  await expect(asked).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
});

it("a command name, or the payload of another command, does not compile in place of a command, and is refused", async () => {
  const refused = { code: "config_invalid", message: expect.stringContaining("defineCommand") };
  // @ts-expect-error: a command is its definition, not its name.
  await expect(enqueueOne(probeEnv, app, by, { command: "lab.requested", payload: { name: fresh() } })).rejects.toMatchObject(refused);
  // @ts-expect-error: the form before had the name as `type`.
  await expect(enqueueOne(probeEnv, app, by, { type: "lab.requested", payload: { name: fresh() } })).rejects.toMatchObject(refused);
  const invalid = { code: "invalid_payload" };
  // @ts-expect-error: `name` is missing.
  await expect(enqueueOne(probeEnv, app, by, { command: LabRequested, payload: { note: "x" } })).rejects.toMatchObject(invalid);
  // @ts-expect-error: `note` is text.
  await expect(enqueueOne(probeEnv, app, by, { command: LabRequested, payload: { name: "x", note: 1 } })).rejects.toMatchObject(invalid);
  const several = () =>
    enqueue(probeEnv, app, by, [
      { command: LabRequested, payload: { name: fresh() } },
      // @ts-expect-error: `steps` is missing.
      { command: ProbeRequested, payload: { name: fresh() } },
      // @ts-expect-error: no command has this field.
      { command: LabRequested, payload: { name: fresh(), nmae: "x" } },
    ]);
  expect(several).toBeTypeOf("function");
});
