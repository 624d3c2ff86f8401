import { env } from "cloudflare:workers";
import { schedules } from "millrace/operate";
import { afterEach, describe, expect, it, vi } from "vitest";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import { app } from "../../../src/catalog.ts";
import { type Caller, callerWith, expectProblem, type Json, research } from "../../api/client.ts";
import { dueSince, HOUR_MS, instancesOf, reason, scheduled, seedSchedules, thisHour } from "./scheduled.ts";

/**
 * The engine's bindings, with a function that runs just before the nth batch that names this schedule. The keeper's query does not name
 * the schedule, so the keeper's write is its first such batch.
 */
function meanwhile(nth: number, name: string, happens: () => Promise<unknown>) {
  const naming = new WeakSet<D1PreparedStatement>();
  let asked = 0;
  const DB = {
    prepare: (text: string) => ({
      bind(...values: unknown[]) {
        const statement = env.DB.prepare(text).bind(...values);
        if (values.includes(name)) naming.add(statement);
        return statement;
      },
    }),
    async batch(statements: D1PreparedStatement[]) {
      if (statements.some((statement) => naming.has(statement)) && ++asked === nth) await happens();
      return env.DB.batch(statements);
    },
  } as unknown as D1Database;
  return { ...env, DB };
}

const nameIn = (path: string) => path.split("/").at(-1) ?? "";
const otherTimes = { cron: "30 3 1 1 *", command: research("tea"), reason };

/** Operators' changes of a schedule. */
const CHANGES = [
  ["paused", (caller: Caller, path: string) => caller.post(`${path}/pause`, { reason })],
  ["changed", (caller: Caller, path: string) => caller.call("PUT", path, otherTimes)],
  ["deleted", (caller: Caller, path: string) => caller.call("DELETE", `${path}?reason=${reason}`)],
] as const;

/** The keeper's writes about a due time, which run after an operator's change. */
const WRITES = [
  ["starts it", {}, ""],
  ["records it as missed", { cron: "30 3 1 1 *", late_seconds: 60 }, ""],
  ["refuses it", {}, `UPDATE millrace_schedules SET payload = '{"brand":"NOT A NAME"}' WHERE tenant_id = ?1`],
] as const;

afterEach(() => void vi.restoreAllMocks());

describe("A due time that the keeper has read", () => {
  it.each(CHANGES.flatMap(([how, change]) => WRITES.map(([writes, more, broken]) => ({ how, change, writes, more, broken }))))(
    "a schedule's due time does not run when its schedule is $how before the keeper $writes, and is recorded once as missed",
    async ({ how, change, more, broken }) => {
      const { caller, path, runs } = await scheduled(more);
      if (broken) await env.DB.prepare(broken).bind(caller.tenantId).run();
      await dueSince(caller, thisHour() - HOUR_MS);
      let status = 0;
      const asked = async () => {
        ({ status } = await change(caller, path));
      };
      await startDue(meanwhile(1, nameIn(path), asked), app);
      expect(status).toBeLessThan(300);
      expect(await instancesOf(caller)).toEqual([]);
      expect(await runs()).toMatchObject([{ state: "missed", reason: `ada ${how} the schedule before the run was started.` }]);
      const { body } = await caller.get(path);
      if (how === "changed")
        expect(body).toMatchObject({ state: "active", revision: 2, next_at: expect.stringMatching(/-01-01T03:30:00.000Z$/) });
      if (how === "paused") expect(body).toMatchObject({ state: "paused", revision: 2, next_at: null });
    },
  );

  it("a schedule's due time is started once by two concurrent keepers", async () => {
    const { caller, path, runs } = await scheduled();
    await dueSince(caller, thisHour());
    await startDue(
      meanwhile(1, nameIn(path), () => startDue(env, app)),
      app,
    );
    expect(await instancesOf(caller)).toHaveLength(1);
    expect(await runs()).toMatchObject([{ state: "started", times: 1 }]);
  });
});

describe("A due time that the keeper starts while another caller changes its schedule", () => {
  const wanted = {
    cron: otherTimes.cron,
    timeZone: "UTC",
    command: "research.requested",
    payload: research("tea").payload,
    lateMs: HOUR_MS,
  };
  it.each([
    ["pauses its schedule", (db: typeof env, by: Json, name: string) => schedules.pause(db, by, name, reason)],
    ["changes its schedule", (db: typeof env, by: Json, name: string) => schedules.put(db, app, by, name, wanted, reason)],
    ["ends its schedule", (db: typeof env, by: Json, name: string) => schedules.delete(db, by, name, reason)],
  ])(
    "a schedule's due time that the keeper starts while another caller %s is recorded as started, and not also as missed",
    async (_, change) => {
      const { caller, path, runs } = await scheduled();
      await dueSince(caller, thisHour());
      const by = { tenantId: caller.tenantId, actor: "ada", scopes: ["enqueue", "operate"] };
      await change(
        meanwhile(2, nameIn(path), () => startDue(env, app)),
        by,
        nameIn(path),
      );
      expect(await instancesOf(caller)).toHaveLength(1);
      expect(await runs()).toMatchObject([{ state: "started", times: 1 }]);
    },
  );

  it("a schedule's due time that passes during a concurrent start and pause is recorded as missed, and the earlier one as started", async () => {
    const { caller, path, runs } = await scheduled();
    const due = thisHour();
    await dueSince(caller, due - HOUR_MS);
    const by = { tenantId: caller.tenantId, actor: "ada" };
    // The keeper reads before the hour, and writes after the pausing caller has read the schedule.
    const early = meanwhile(2, nameIn(path), () => startDue(env, app, due - 1));
    await schedules.pause(early, by, nameIn(path), reason);
    expect(await runs()).toMatchObject([
      { state: "missed", due_at: new Date(due).toISOString(), times: 1, reason: "ada paused the schedule before the run was started." },
      { state: "started", due_at: new Date(due - HOUR_MS).toISOString() },
    ]);
  });

  it("a schedule's due time that was started is not due again after a concurrent change of its schedule by a caller with a slow clock", async () => {
    const { caller, path, runs } = await scheduled();
    const [due, now] = [thisHour(), Date.now()];
    await dueSince(caller, due);
    const by = { tenantId: caller.tenantId, actor: "ada", scopes: ["enqueue", "operate"] } as const;
    vi.spyOn(Date, "now").mockReturnValue(due - 1000);
    const hourly = { ...wanted, cron: "0 * * * *" };
    await schedules.put(
      meanwhile(2, nameIn(path), () => startDue(env, app, now)),
      app,
      by,
      nameIn(path),
      hourly,
      reason,
    );
    vi.restoreAllMocks();
    expect((await caller.get(path)).body).toMatchObject({ revision: 2, next_at: new Date(due + HOUR_MS).toISOString() });
    expect(await runs()).toMatchObject([{ state: "started", due_at: new Date(due).toISOString() }]);
  });
});

describe("A run of a schedule by hand", () => {
  const key = { "idempotency-key": "today" };

  it.each([
    [
      "has another command",
      (caller: Caller, path: string) =>
        caller.call("PUT", path, { ...otherTimes, command: { type: "brand.audit", payload: { brand: "acme" } } }),
    ],
    ["has another payload", (caller: Caller, path: string) => caller.call("PUT", path, otherTimes)],
    ["is paused", (caller: Caller, path: string) => caller.post(`${path}/pause`, { reason })],
    ["is ended", (caller: Caller, path: string) => caller.call("DELETE", `${path}?reason=${reason}`)],
  ])("a second run by hand with the same key is the first run, also when the schedule %s in between", async (_, change) => {
    const { caller, path, runs } = await scheduled();
    const first = await caller.post(`${path}/run`, { reason }, key);
    expect(first).toMatchObject({ status: 202, body: { replayed: false } });
    expect((await change(caller, path)).status).toBeLessThan(300);
    expect(await caller.post(`${path}/run`, { reason }, key)).toMatchObject({
      status: 202,
      body: { instance_id: first.body.instance_id, replayed: true, instance_status: expect.any(String) },
    });
    expect((await caller.get("/v1/instances")).body.items.map(({ id }: Json) => id)).toEqual([first.body.instance_id]);
    expect(await runs()).toHaveLength(1);
    const other = await caller.post(`${path}/run`, { reason }, { "idempotency-key": "tomorrow" });
    expect(other.body.instance_id).not.toBe(first.body.instance_id);
  });

  it.each([
    ["command", { type: "brand.audit", payload: { brand: "acme" } }],
    ["payload", research("tea")],
  ])("two concurrent runs by hand with one key are one run, also when another %s is stored between them", async (_, command) => {
    const { caller, path, runs } = await scheduled();
    const by = { tenantId: caller.tenantId, actor: "ada", scopes: ["enqueue", "operate"] } as const;
    const wish = { reason, occasion: "today" };
    let other: Json;
    // At this point the first request has read the record of runs and the schedule.
    const held = meanwhile(3, nameIn(path), async () => {
      await caller.call("PUT", path, { ...otherTimes, command });
      other = await schedules.run(env, app, by, nameIn(path), wish);
    });
    expect(await schedules.run(held, app, by, nameIn(path), wish)).toMatchObject({ instanceId: other.instanceId, replayed: true });
    expect((await caller.get("/v1/instances")).body.items).toMatchObject([{ id: other.instanceId }]);
    expect(await runs()).toMatchObject([{ state: "manual", instance_id: other.instanceId }]);
  });

  it("runs by hand in the same millisecond have separate records and audit records", async () => {
    const { caller, path, runs } = await scheduled();
    const by = { tenantId: caller.tenantId, actor: "ada", scopes: ["enqueue", "operate"] } as const;
    const moment = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(moment);
    const wishes = Array.from({ length: 20 }, (_, index) => ({ reason, occasion: `wish ${index}` }));
    const accepted = await Promise.all(wishes.map((wish) => schedules.run(env, app, by, nameIn(path), wish)));
    vi.restoreAllMocks();
    const noted = await runs();
    expect(noted.map((run) => run.instance_id).sort()).toEqual(accepted.map(({ instanceId }) => instanceId).sort());
    expect(noted.every((run) => Date.parse(run.recorded_at) === moment && Date.parse(run.due_at) - moment < 20)).toBe(true);
    const { items } = (await caller.get("/v1/audit?limit=50")).body;
    expect(items.filter(({ verb, result }: Json) => verb === "run" && result === "applied")).toHaveLength(20);
  });
});

describe("The last free schedule of a tenant", () => {
  it("of several concurrent requests to create the last schedule that a tenant may have, one succeeds", async () => {
    const caller = await callerWith();
    await seedSchedules(caller, 999, "nobody.knows");
    const asked = ["a", "b", "c", "d"].map((name) => caller.call("PUT", `/v1/schedules/${name}`, otherTimes));
    const answers = await Promise.all(asked);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    for (const answer of answers.filter(({ status }) => status === 409)) {
      expect(expectProblem(answer, 409, "invalid_transition").detail).toContain("1000 schedules");
    }
    await env.DB.prepare("DELETE FROM millrace_schedules WHERE tenant_id = ?1").bind(caller.tenantId).run();
  });
});

describe("Concurrent changes of one schedule", () => {
  it("of several concurrent changes of a schedule, each applied one has one audit row, and the others are audited as refused", async () => {
    const { caller, path, put } = await scheduled();
    const answers = await Promise.all(Array.from({ length: 12 }, (_, minute) => put({ cron: `${minute} * * * *` })));
    const applied = answers.filter(({ status }) => status === 200).length;
    expect((await caller.get(path)).body.revision).toBe(1 + applied);
    for (const answer of answers.filter(({ status }) => status !== 200)) expectProblem(answer, 409, "invalid_transition");
    const { items } = (await caller.get("/v1/audit?limit=200")).body;
    const results = items.filter(({ target }: Json) => target === nameIn(path)).map(({ result }: Json) => result);
    expect(results).toEqual(Array(1 + applied).fill("applied"));
    const refused = items.filter(({ result }: Json) => result === "refused");
    expect(refused.map(({ target }: Json) => target)).toEqual(applied < 12 ? expect.arrayContaining([path]) : []);
  });

  it.each(["pause", "delete"] as const)("the %s of a schedule that was changed in the meantime has one audit row", async (verb) => {
    const { caller, path, put } = await scheduled();
    const by = { tenantId: caller.tenantId, actor: "ada" };
    await schedules[verb](
      meanwhile(2, nameIn(path), () => put({ cron: "7 * * * *" })),
      by,
      nameIn(path),
      reason,
    );
    const { items } = (await caller.get("/v1/audit?limit=200")).body;
    const results = items.filter(({ target }: Json) => target === nameIn(path)).map(({ result }: Json) => result);
    expect(results).toEqual(["applied", "applied", "applied"]);
  });
});
