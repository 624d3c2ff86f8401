import { createExecutionContext, runInDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { upstreamRefused } from "millrace";
import { actions, instances, SCOPES, schedules } from "millrace/operate";
import { armKeeper, keeperOf } from "millrace/worker";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { keeperAge } from "../../../packages/millrace/src/keeper/client.ts";
import { withAuditOpen } from "../../opened-audit.ts";
import { labs } from "../../probe/lab.ts";
import { app, type Keeper } from "../../probe/worker.ts";
import { isSlow } from "../../until.ts";
import { dieAt, fresh, keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { LAB, platformReaches, runLab } from "../lab.ts";
import { accepted, example, MANY, nextLook, open, promised, roundOverSleepers, run, unsent } from "./crowd.ts";

describe("Keeper", () => {
  it("K01 the keeper starts an accepted command within one round, also with many open instances, unsent messages and failing actions", async () => {
    const gone = fresh("retired");
    const like = await example();
    await open(MANY.hopeless, `${gone}-promised`, like);
    await promised(`${gone}-promised`);
    await open(MANY.open, gone, like);
    await unsent(MANY.messages, gone);
    const id = await accepted();
    const began = Date.now();
    await keeperOf(probeEnv).round();
    const ms = Date.now() - began;
    expect(await reaches(id, "complete")).toBe("complete");
    console.log(`A round over ${JSON.stringify(MANY)} took ${ms} ms.`);
    expect(ms).toBeLessThan(isSlow ? 30_000 : 10_000);
  }, 300_000);

  it("K01 a round of the keeper processes further batches of rows while work and time remain", async () => {
    const gone = fresh("retired");
    await open(1000, gone, await example());
    await run("UPDATE millrace_instances SET seen = 1 WHERE workflow = ?1", gone);
    await keeperOf(probeEnv).round();
    const due = await rows("SELECT 1 FROM millrace_instances WHERE workflow = ?1 AND check_at <= ?2", gone, Date.now());
    expect(due.length).toBeLessThan(1000 - 200);
  });

  it("K01 the keeper retries failing actions with a back-off, after all other actions, and fails them after one day", async () => {
    const gone = fresh("retired");
    await open(60, gone, await example());
    await promised(gone, Date.now() + 3_600_000);
    const mended = { yet: false };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.commit(
        "a",
        () => {
          if (!mended.yet) throw upstreamRefused("no");
          return {};
        },
        { retries: { limit: 0, delay: 10 } },
      );
    });
    await platformReaches(instanceId, "errored");
    expect(await reaches(instanceId, "errored")).toBe("errored");
    mended.yet = true;
    dieAt("retry committed, not applied");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "repaired" }).catch(() => undefined);
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");

    const promises = () =>
      rows<{ attempts: number; error: string; result: string; wait: number }>(
        `SELECT DISTINCT attempts, error, result, (due_at - ?2) / 1000 > 0 AS wait FROM millrace_actions WHERE reason = ?1`,
        gone,
        Date.now(),
      );
    expect(await promises()).toEqual([{ attempts: 1, error: expect.stringContaining("is not bound"), result: "applied", wait: 1 }]);

    await withAuditOpen("UPDATE millrace_actions SET at = at - 86400000 WHERE reason = ?1", gone);
    await keeperRound();
    expect(await promises()).toMatchObject([{ attempts: 2, result: "failed" }]);
    expect(await rows("SELECT DISTINCT status, error->>'code' AS code FROM millrace_instances WHERE workflow = ?1", gone)).toEqual([
      { status: "errored", code: "unavailable" },
    ]);
    await withAuditOpen("UPDATE millrace_actions SET at = ?2 WHERE reason = ?1", gone, Date.now() + 1000);
    const [shown] = (await actions.list(probeEnv, operator, { limit: 1 })).items;
    expect(shown).toMatchObject({ result: "failed", applied_at: null, error: expect.stringContaining("is not bound") });
  });

  it("K01 an instance whose platform status call hangs does not block the commands, ends and actions of other instances", async () => {
    const mended = { yet: false };
    const failing = await runLab(async ({ step }) => {
      await step.read(
        "fails",
        async () => {
          if (!mended.yet) throw upstreamRefused("no");
          return 1;
        },
        { retries: { limit: 0, delay: 10 } },
      );
    });
    const ended = await runLab(async ({ step }) => void (await step.commit("c", () => ({}))));
    const hung = await Promise.all([1, 2, 3].map(() => runLab(async ({ step }) => step.sleep("s", 600_000))));
    expect(await reaches(failing.instanceId, "errored")).toBe("errored");
    await platformReaches(failing.instanceId, "errored");
    await platformReaches(ended.instanceId, "complete");
    await reaches(ended.instanceId, "complete");
    for (const { instanceId } of hung) await platformReaches(instanceId, "running", "waiting");
    const [unseen, seen, owed] = hung.map(({ instanceId }) => instanceId);
    mended.yet = true;
    dieAt("retry committed, not applied");
    await instances.act(probeEnv, operator, "retry", failing.instanceId, { reason: "repaired" }).catch(() => undefined);
    await run("UPDATE millrace_instances SET status = 'running', seen = 1, check_at = 2 WHERE id = ?1", ended.instanceId);
    await run("UPDATE millrace_instances SET status = 'queued', seen = 0, check_at = 1 WHERE id = ?1", unseen);
    await run("UPDATE millrace_instances SET status = 'running', seen = 1, check_at = 1 WHERE id = ?1", seen);
    await run(
      `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, result, at, due_at)
       SELECT 'h' || id, tenant_id, 'tess', 'approve', id, id, 'hangs', 'applied', ${Date.now()}, 1 FROM millrace_instances WHERE id = ?1`,
      owed,
    );
    onTestFinished(async () => void (await withAuditOpen("DELETE FROM millrace_actions WHERE reason = 'hangs'")));
    await run("UPDATE millrace_actions SET due_at = 2 WHERE instance_id = ?1", failing.instanceId);
    const id = await accepted();
    const platform = Object.getPrototypeOf(LAB) as Workflow;
    const real = platform.get;
    const hangs = vi.spyOn(platform, "get").mockImplementation(async function (this: Workflow, one: string) {
      const instance = await real.call(this, one);
      if (!hung.some(({ instanceId }) => instanceId === one)) return instance;
      return { id: one, status: () => new Promise(() => undefined) } as unknown as WorkflowInstance;
    });
    onTestFinished(() => hangs.mockRestore());
    const began = Date.now();
    await keeperOf(probeEnv).round();
    expect(Date.now() - began).toBeLessThan(29_000);
    expect(await statusOf(ended.instanceId)).toBe("complete");
    expect(await reaches(id, "complete")).toBe("complete");
    expect(await reaches(failing.instanceId, "complete")).toBe("complete");
  }, 60_000);

  it("K01 the keeper starts due schedules again although the call of an earlier round never returned", async () => {
    const keeper = keeperOf(probeEnv);
    const duties = (set: object) => runInDurableObject(keeper, (object) => void Object.assign(object, { duties: set }));
    const name = fresh();
    labs.set(name, async () => 1);
    await schedules.put(
      probeEnv,
      app,
      { ...operator, scopes: SCOPES },
      name,
      { cron: "0 0 1 1 *", timeZone: "UTC", command: "lab.requested", payload: { name }, lateMs: 600_000 },
      "test",
    );
    const due = () => run("UPDATE millrace_schedules SET next_at = ?2 WHERE name = ?1", name, Date.now() - 1000);
    const runs = () => rows("SELECT DISTINCT instance_id FROM millrace_schedule_runs WHERE name = ?1 AND state = 'started'", name);
    await duties({ catalog: app });
    const hangs = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_COMMANDS), "sendBatch").mockReturnValue(new Promise(() => undefined));
    onTestFinished(async () => {
      hangs.mockRestore();
      await duties({});
      await run("DELETE FROM millrace_schedules WHERE name = ?1", name);
    });
    await due();
    const began = Date.now();
    await keeper.round();
    expect(Date.now() - began).toBeLessThan(20_000);
    hangs.mockRestore();
    expect(await runs()).toHaveLength(1);
    await due();
    await keeper.round();
    expect(await runs()).toHaveLength(2);
  }, 60_000);

  it("K01 the cron trigger and any request restart a keeper alarm that the platform has dropped", async () => {
    const alarm = () => runInDurableObject(keeperOf(probeEnv), (_, { storage }) => storage.getAlarm());
    // Repeats the deletion until the alarm stays deleted, because a running round sets the alarm again at its end.
    const lose = () =>
      until(
        () =>
          runInDurableObject(keeperOf(probeEnv), async (keeper, { storage }) => {
            await storage.deleteAlarm();
            // An alarm that fires at this moment begins its round after the deletion.
            await scheduler.wait(50);
            return (await storage.getAlarm()) === null && (keeper as Keeper).underWay === 0;
          }),
        (stayed) => stayed,
      );
    await lose();
    await keeperOf(probeEnv).startDue();
    expect(await alarm()).not.toBe(null);

    const comesBy = async () => {
      const ctx = createExecutionContext();
      armKeeper(probeEnv, ctx);
      await waitOnExecutionContext(ctx);
    };
    // Hours from every time at which an earlier test can have restarted the alarm, because an isolate checks the alarm once per minute.
    const atMs = Date.now() + 7 * 3_600_000;
    onTestFinished(async () => {
      vi.restoreAllMocks();
      await lose();
      await keeperOf(probeEnv).arm();
    });
    const clock = vi.spyOn(Date, "now").mockReturnValue(atMs + 61_000);
    await comesBy();
    expect(await alarm()).not.toBe(null);
    await lose();
    clock.mockReturnValue(atMs + 100_000);
    await comesBy();
    expect(await alarm()).toBe(null);
    clock.mockReturnValue(atMs + 122_000);
    await comesBy();
    expect(await alarm()).not.toBe(null);
  });

  it("K01 a keeper alarm that was set while the clock was one hour ahead is restarted, and the keeper reports that it had stopped", async () => {
    const alarm = () => runInDurableObject(keeperOf(probeEnv), (_, { storage }) => storage.getAlarm());
    // A running round sets the alarm again at its end.
    const age = await until(
      () =>
        runInDurableObject(keeperOf(probeEnv), async (keeper, { storage }) => {
          await storage.setAlarm(Date.now() + 3_600_000);
          return keeper.age();
        }),
      (found) => found === null,
    );
    expect(age).toBe(null);
    expect(await alarm()).toBeLessThan(Date.now() + 60_000);
    expect(await keeperAge(probeEnv)).toBeLessThan(60_000);
  });

  it("K01 the keeper reports the age of its last round", async () => {
    await keeperOf(probeEnv).round();
    expect(await keeperAge(probeEnv)).toBeLessThan(10_000);
  });

  it("K01 the time until the keeper's next check of a sleeping instance equals the time that the instance has slept, up to a day", async () => {
    const state = { awake: false, go: false };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("simulated sleep", async () => {
        while (!state.awake) await scheduler.wait(10);
        return 1;
      });
      await step.commit("awake", () => ({}));
      await step.read("goes on", async () => {
        while (!state.go) await scheduler.wait(10);
        return 1;
      });
    });
    onTestFinished(() => {
      state.awake = true;
      state.go = true;
    });
    await platformReaches(instanceId, "running");
    // Waits for the writes of the first replay.
    await reaches(instanceId, "running");
    const look = async (sleptMs: number) => {
      await run("UPDATE millrace_instances SET check_at = 0, seen = 1, updated_at = ?2 WHERE id = ?1", instanceId, Date.now() - sleptMs);
      const beganAt = Date.now();
      await roundOverSleepers();
      const { status, seconds } = await nextLook(instanceId, beganAt);
      // Rounds down, because the duration of the check counts as sleep.
      return { status, seconds: seconds - (seconds % 10) };
    };
    expect(await look(0)).toEqual({ status: "waiting", seconds: 30 });
    expect(await look(7_200_000)).toEqual({ status: "waiting", seconds: 7200 });
    expect(await look(30 * 86_400_000)).toEqual({ status: "waiting", seconds: 86_400 });
    state.awake = true;
    await reaches(instanceId, "running");
    expect((await nextLook(instanceId)).seconds).toBeLessThanOrEqual(10);
  });
});
