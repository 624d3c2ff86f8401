import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { schedules } from "millrace/operate";
import { keeperOf } from "millrace/worker";
import { describe, expect, it, vi } from "vitest";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import { app } from "../../../src/catalog.ts";
import { type Caller, callerWith, expectProblem, type Json, reaches, research } from "../../api/client.ts";
import { dueSince, HOUR_MS, instancesOf, platformCron, reason, scheduled, seedSchedules, thisHour } from "./scheduled.ts";

describe("A due time of a schedule", () => {
  it("a schedule's due time becomes one command, for any number of concurrent polls", async () => {
    const { caller, path, runs } = await scheduled();
    const due = thisHour();
    await dueSince(caller, due);
    await Promise.all([platformCron(), keeperOf(env).startDue(), platformCron()]);
    await keeperOf(env).round();

    const [instance, ...others] = await instancesOf(caller);
    expect(others).toEqual([]);
    expect(instance.idempotency_key).toBe(`schedule/${path.split("/").at(-1)}/${new Date(due).toISOString()}`);
    await reaches(caller, instance.id, "complete");
    expect(await runs()).toMatchObject([{ due_at: new Date(due).toISOString(), state: "started", times: 1, instance_id: instance.id }]);
    const { body } = await caller.get(path);
    expect(Date.parse(body.next_at)).toBeGreaterThan(Date.now());
    expect(body.last_run).toMatchObject({ state: "started", instance_id: instance.id });
  });

  it("one poll starts the due times of every schedule, also when more are due than one query reads", async () => {
    const caller = await callerWith();
    const due = thisHour();
    // An instance of this command ends at once.
    await seedSchedules(caller, 130, "projection.rebuild");
    await dueSince(caller, due);
    await platformCron();
    const { results } = await env.DB.prepare(
      "SELECT count(*) AS started FROM millrace_schedule_runs WHERE tenant_id = ?1 AND state = 'started'",
    )
      .bind(caller.tenantId)
      .all();
    expect(results).toEqual([{ started: 130 }]);
  });

  it("a poll starts due times of each tenant in turn, for any number of older ones of another tenant", async () => {
    const [many, few] = [await callerWith(), await callerWith()];
    const due = thisHour();
    const plain = { cron: "0 * * * *", command: { type: "projection.rebuild", payload: { projection: "facts", request: "few" } }, reason };
    expect((await few.call("PUT", "/v1/schedules/mine", plain)).status).toBe(200);
    await seedSchedules(many, 1000, "nobody.knows");
    await dueSince(many, due - 1000);
    await dueSince(few, due);
    await platformCron();
    expect((await few.get("/v1/schedules/mine/runs")).body.items).toMatchObject([{ state: "started" }]);
    await env.DB.prepare("DELETE FROM millrace_schedules WHERE tenant_id = ?1").bind(many.tenantId).run();
  });

  it("when more due times have come than one poll starts, the keeper polls again at once", async () => {
    const caller = await callerWith();
    await seedSchedules(caller, 450, "nobody.knows");
    await dueSince(caller, thisHour());
    const next = await runInDurableObject(keeperOf(env), async (keeper, { storage }) => {
      await keeper.alarm();
      return ((await storage.getAlarm()) ?? 0) - Date.now();
    });
    expect(next).toBeLessThan(1000);
    await env.DB.prepare("DELETE FROM millrace_schedules WHERE tenant_id = ?1").bind(caller.tenantId).run();
  });

  it("a schedule's due time that is due again becomes the same command, and runs once", async () => {
    const { caller, runs } = await scheduled();
    const due = thisHour();
    for (let times = 0; times < 2; times++) {
      await dueSince(caller, due);
      await platformCron();
    }
    expect(await instancesOf(caller)).toHaveLength(1);
    expect(await runs()).toHaveLength(1);
  });

  it("a schedule's due time is recorded as refused when other work has its key", async () => {
    const { caller, path, runs } = await scheduled();
    const due = thisHour();
    const key = `schedule/${path.split("/").at(-1)}/${new Date(due).toISOString()}`;
    const { status } = await caller.call("POST", "/v1/commands", research("hot tea"), { "idempotency-key": key });
    expect(status).toBe(202);
    await dueSince(caller, due);
    await platformCron();
    expect(await runs()).toMatchObject([{ state: "refused", instance_id: null, reason: expect.stringContaining("another payload") }]);
  });

  it("a schedule's due time with an invalid command is recorded as refused, and the schedule gets its next due time", async () => {
    const { caller, path, runs } = await scheduled();
    await env.DB.prepare(`UPDATE millrace_schedules SET payload = '{"brand":"NOT A NAME"}' WHERE tenant_id = ?1`)
      .bind(caller.tenantId)
      .run();
    await dueSince(caller, thisHour());
    await platformCron();
    expect(await runs()).toMatchObject([{ state: "refused", instance_id: null, reason: expect.stringContaining("payload.brand") }]);
    expect(Date.parse((await caller.get(path)).body.next_at)).toBeGreaterThan(Date.now());
    expect(await instancesOf(caller)).toEqual([]);
  });
});

describe("Due times that passed while the keeper was not running", () => {
  it("a schedule's due times that passed without a keeper are recorded as missed, and the last one runs if it is not too late", async () => {
    const { caller, runs } = await scheduled();
    const last = thisHour();
    await dueSince(caller, last - 5 * HOUR_MS);
    await platformCron();
    const [started, missed] = await runs();
    expect(started).toMatchObject({ due_at: new Date(last).toISOString(), state: "started" });
    expect(missed).toMatchObject({
      due_at: new Date(last - 5 * HOUR_MS).toISOString(),
      until: new Date(last - HOUR_MS).toISOString(),
      state: "missed",
      times: 5,
      reason: "No run started before the next due time.",
    });
    expect(await instancesOf(caller)).toHaveLength(1);
  });

  it("a schedule's due times that passed without a keeper are all recorded as missed when the last one is too late", async () => {
    const { caller, runs } = await scheduled({ cron: "0 0 1 1 *", late_seconds: 60 });
    const year = new Date().getUTCFullYear();
    await dueSince(caller, Date.UTC(year - 2, 0, 1));
    await platformCron();
    expect(await runs()).toMatchObject([
      { state: "missed", times: 3, until: `${year}-01-01T00:00:00.000Z`, reason: "No run started within late_seconds." },
    ]);
    expect(await instancesOf(caller)).toEqual([]);
  });

  it("missed due times are counted up to 300, and the last missed due time is correct for any number", async () => {
    const { caller, runs } = await scheduled({ cron: "* * * * *" });
    await dueSince(caller, thisHour() - 40 * 24 * HOUR_MS);
    await platformCron();
    const [started, missed] = await runs();
    expect(Date.now() - Date.parse(started.due_at)).toBeLessThan(2 * 60_000);
    expect(missed).toMatchObject({ state: "missed", times: 300 });
    expect(Date.parse(started.due_at) - Date.parse(missed.until)).toBe(60_000);
  });

  it("due times that a pause drops are also counted up to 300", async () => {
    const { caller, path, runs } = await scheduled({ cron: "* * * * *" });
    await dueSince(caller, thisHour() - 40 * 24 * HOUR_MS);
    await caller.post(`${path}/pause`, { reason });
    expect(await runs()).toMatchObject([{ state: "missed", times: 300 }]);
  });
});

describe("A due time that has not been started", () => {
  it.each([
    ["paused", (caller: Caller, path: string) => caller.post(`${path}/pause`, { reason })],
    ["changed", (caller: Caller, path: string) => caller.call("PUT", path, { cron: "30 * * * *", command: research("tea"), reason })],
    ["deleted", (caller: Caller, path: string) => caller.call("DELETE", `${path}?reason=${reason}`)],
  ])("a due time that has not been started is recorded as missed when its schedule is %s, and does not run", async (how, change) => {
    const { caller, path, runs } = await scheduled();
    const due = thisHour();
    await dueSince(caller, due - HOUR_MS);
    expect((await change(caller, path)).status).toBeLessThan(300);
    await platformCron();
    expect(await runs()).toMatchObject([
      {
        state: "missed",
        due_at: new Date(due - HOUR_MS).toISOString(),
        until: new Date(due).toISOString(),
        times: 2,
        reason: `ada ${how} the schedule before the run was started.`,
      },
    ]);
    expect(await instancesOf(caller)).toEqual([]);
  });
});

describe("A schedule with a time zone that is not in the runtime", () => {
  it("a schedule with an unknown time zone can be paused, changed and deleted, but not resumed", async () => {
    const { caller, path, put, runs } = await scheduled();
    const due = thisHour();
    const forget = () =>
      env.DB.prepare("UPDATE millrace_schedules SET time_zone = 'Mars/Base' WHERE tenant_id = ?1").bind(caller.tenantId).run();
    await dueSince(caller, due);
    await forget();
    expect((await caller.post(`${path}/pause`, { reason })).body).toMatchObject({ state: "paused" });
    expect(await runs()).toMatchObject([{ state: "missed", due_at: new Date(due).toISOString(), times: 1 }]);
    expect(expectProblem(await caller.post(`${path}/resume`, { reason }), 422, "invalid_payload").issues).toMatchObject([
      { path: "time_zone" },
    ]);
    expect((await put()).body).toMatchObject({ time_zone: "UTC" });
    await forget();
    expect((await caller.call("DELETE", `${path}?reason=${reason}`)).status).toBe(204);
  });
});

describe("A clock that is set back", () => {
  /** A schedule that is due hourly, and functions that act at a number of hours after its creation. */
  async function clocked() {
    const by = { tenantId: (await callerWith()).tenantId, actor: "ada", scopes: ["enqueue", "operate"] } as const;
    // The keeper does not start due times in the future.
    const start = thisHour() + 100 * HOUR_MS;
    const at = async <T>(hours: number, act: () => Promise<T>): Promise<T> => {
      const clock = vi.spyOn(Date, "now").mockReturnValue(start + hours * HOUR_MS);
      return act().finally(() => clock.mockRestore());
    };
    const { type: command, payload } = research("tea");
    const put = () => schedules.put(env, app, by, "n", { cron: "0 * * * *", timeZone: "UTC", command, payload, lateMs: HOUR_MS }, reason);
    await at(0.5, put);
    const hourOf = (time: string) => (Date.parse(time) - start) / HOUR_MS;
    const runs = async () =>
      (await schedules.runs(env, by, "n", {})).items.map((run) => [run.state, hourOf(run.due_at), hourOf(run.until)]);
    return { by, at, hourOf, runs };
  }

  it("a run by hand that was recorded in the future does not defer the due times of a resumed schedule", async () => {
    const { by, at, hourOf } = await clocked();
    await at(0.5, () => schedules.pause(env, by, "n", reason));
    await at(5.5, () => schedules.run(env, app, by, "n", { reason, occasion: "ahead" }));
    const { next_at } = await at(0.6, () => schedules.resume(env, app, by, "n", reason));
    expect(hourOf(next_at ?? "")).toBe(1);
    await schedules.delete(env, by, "n", reason);
  });

  it("a due time that was started in the future is not also recorded as paused", async () => {
    const { by, at, runs } = await clocked();
    await at(2, () => startDue(env, app));
    await at(1.5, () => schedules.pause(env, by, "n", reason));
    await at(3.5, () => schedules.resume(env, app, by, "n", reason));
    expect(await runs()).toEqual([
      ["paused", 3, 3],
      ["started", 2, 2],
      ["missed", 1, 1],
    ]);
    await schedules.delete(env, by, "n", reason);
  });
});

describe("A schedule that is written with a revision", () => {
  it("a schedule that is written with an old revision does not overwrite an operator's change or an existing schedule", async () => {
    const caller = await callerWith();
    const put = (cron: string, revision: number) =>
      caller.call("PUT", "/v1/schedules/nightly", { cron, command: research("tea"), reason, revision });
    expect(await put("0 3 * * *", 0)).toMatchObject({ status: 200, body: { revision: 1 } });
    expect(expectProblem(await put("0 4 * * *", 0), 409, "invalid_transition").detail).toContain('The schedule "nightly" exists already');
    expect(await put("30 5 * * *", 1)).toMatchObject({ status: 200, body: { revision: 2 } });
    const { detail } = expectProblem(await put("0 3 * * *", 1), 409, "invalid_transition");
    expect(detail).toContain("is at revision 2, by ada, and yours is based on revision 1");
    expect((await caller.get("/v1/schedules/nightly")).body.cron).toBe("30 5 * * *");
    await caller.call("DELETE", `/v1/schedules/nightly?reason=${reason}`);
    expect(expectProblem(await put("0 3 * * *", 2), 409, "invalid_transition").detail).toContain("was deleted");
    expect(await put("0 6 * * *", 0)).toMatchObject({ status: 200, body: { revision: 3 } });
    expect(expectProblem(await put("0 3 * * *", 1), 409, "invalid_transition").detail).toContain("is at revision 3");
  });
});

describe("A resume of an active schedule", () => {
  it("a resume of an active schedule is refused, and a due time in the meantime runs once", async () => {
    const { caller, path, runs } = await scheduled();
    const due = thisHour();
    await dueSince(caller, due - HOUR_MS);
    const { detail, from } = expectProblem(await caller.post(`${path}/resume`, { reason: "a slip" }), 409, "invalid_transition");
    expect([detail, from]).toEqual(["The schedule is active already.", "active"]);
    expect(await runs()).toEqual([]);
    await platformCron();
    expect(await runs()).toMatchObject([
      { state: "started", due_at: new Date(due).toISOString() },
      { state: "missed", times: 1, reason: "No run started before the next due time." },
    ]);
    const { items } = (await caller.get("/v1/audit")).body;
    expect(items.filter(({ verb }: Json) => verb === "resume")).toMatchObject([{ reason: "a slip", result: "no_change" }]);
  });
});

describe("A paused schedule", () => {
  it("a schedule that is paused twice reports every missed due time when it is resumed, and not before", async () => {
    const { caller, path, runs } = await scheduled();
    await caller.post(`${path}/pause`, { reason: "holidays" });
    const first = thisHour() - 2 * HOUR_MS;
    await env.DB.prepare("UPDATE millrace_schedules SET changed_at = ?1 WHERE tenant_id = ?2")
      .bind(first - 1, caller.tenantId)
      .run();
    const { detail } = expectProblem(await caller.post(`${path}/pause`, { reason }), 409, "invalid_transition");
    expect(detail).toBe("The schedule is paused already.");
    expect(await runs()).toEqual([]);
    await caller.post(`${path}/resume`, { reason: "back again" });
    expect(await runs()).toMatchObject([{ state: "paused", times: 3, due_at: new Date(first).toISOString() }]);
  });

  it("a paused schedule has no next due time, and reports the due times of the pause after its resume", async () => {
    const { caller, path, runs } = await scheduled();
    const paused = await caller.post(`${path}/pause`, { reason: "holidays" });
    expect(paused.body).toMatchObject({ state: "paused", next_at: null, changed_by: "ada" });
    expectProblem(await caller.post(`${path}/pause`, { reason }), 409, "invalid_transition");
    await platformCron();
    await env.DB.prepare("UPDATE millrace_schedules SET changed_at = ?1 WHERE tenant_id = ?2")
      .bind(thisHour() - 2 * HOUR_MS - 1, caller.tenantId)
      .run();

    expect((await caller.post(`${path}/resume`, { reason: "back again" })).body).toMatchObject({ state: "active" });
    expectProblem(await caller.post(`${path}/resume`, { reason }), 409, "invalid_transition");
    expect(await runs()).toMatchObject([
      { state: "paused", times: 3, due_at: new Date(thisHour() - 2 * HOUR_MS).toISOString(), reason: "ada had paused the schedule." },
    ]);
    expect(await instancesOf(caller)).toEqual([]);
  });

  it("a paused schedule can be resumed by a caller with the scope of its command, and by no other", async () => {
    const { caller, path } = await scheduled();
    await caller.post(`${path}/pause`, { reason: "holidays" });
    const operator = await callerWith(["read", "operate"], caller.tenantId);
    const { detail } = expectProblem(await operator.post(`${path}/resume`, { reason }), 403, "forbidden");
    expect(detail).toContain("needs the scope `enqueue`");
    expect((await operator.get(path)).body).toMatchObject({ state: "paused", next_at: null });
    expect((await caller.post(`${path}/resume`, { reason })).body).toMatchObject({ state: "active" });
    expect((await operator.post(`${path}/pause`, { reason })).body).toMatchObject({ state: "paused" });
  });

  it("a paused schedule remains paused when it is changed, and can be run by hand", async () => {
    const { caller, path, put, runs } = await scheduled();
    await caller.post(`${path}/pause`, { reason });
    expect((await put({ cron: "30 6 * * *", time_zone: "Europe/Berlin" })).body).toMatchObject({
      state: "paused",
      next_at: null,
      cron: "30 6 * * *",
      revision: 3,
    });
    const headers = { "idempotency-key": "today" };
    const first = await caller.post(`${path}/run`, { reason: "the customer asks for it" }, headers);
    const again = await caller.post(`${path}/run`, { reason: "the customer asks for it" }, headers);
    expect([first, again].map(({ status, body }) => [status, body])).toEqual([
      [202, { instance_id: first.body.instance_id, replayed: false, instance_status: "accepted" }],
      [202, { instance_id: first.body.instance_id, replayed: true, instance_status: expect.any(String) }],
    ]);
    expect(await runs()).toMatchObject([{ state: "manual", instance_id: first.body.instance_id, reason: "the customer asks for it" }]);
    expect(await instancesOf(caller)).toHaveLength(1);
  });
});
