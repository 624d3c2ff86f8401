import { defineStep, notRetryable, sql } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { platformId } from "../../../packages/millrace/src/contract/ids.ts";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { keeperRound, operator, probeEnv, rows, until } from "../harness.ts";
import { errorOf, held, LAB, platformReaches, runLab } from "../lab.ts";
import { back, effect, ended, ONCE, resolve, retry, saysErrored, stateOf, undo } from "./operating.ts";

/** A cyclic value, which has no JSON. */
function cyclic(): object {
  const answer: { self?: unknown } = {};
  return Object.assign(answer, { self: answer });
}

/** A lookup effect with a lost answer. `found` is whether it happened; while `away` is true its lookup fails. */
function booking(world: string[], upstream: { away: boolean; found: boolean }) {
  return defineStep({
    effect: "lookup",
    ...ONCE,
    timeout: 5000,
    run: async (): Promise<string> => {
      if (upstream.found) world.push("booked");
      throw new Error("No answer.");
    },
    lookup: async () => {
      if (upstream.away) throw new Error("The courier is unavailable.");
      return upstream.found ? "booking-1" : undefined;
    },
    undo: back(async () => world.push("booking back")) as never,
  });
}

/** Sends outcomes that the database refuses to the recorder of an instance, all at once and without waiting for the answers. */
function refuseRecords(instanceId: string, many: number): void {
  const statements = [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${instanceId}, NULL, ${instanceId})`];
  for (let index = 0; index < many; index++) {
    const key = { instanceId: instanceId.slice(0, 8) + index, step: "neighbour", item: "", generation: 1 };
    const attempt = {
      key,
      position: 0,
      after: null,
      caught: null,
      replay: "",
      readAt: null,
      token: key.instanceId,
      epoch: 1,
      saysItRuns: false,
    };
    const outcome = { output: null, outputRef: null, statements, messages: [], error: null };
    recorderOf(probeEnv, instanceId)
      .record({ ...attempt, class: "commit" }, outcome)
      .catch(() => undefined);
  }
}

const van = (world: string[], name = "van") =>
  effect("keyed", async () => world.push(name), { undo: back(async () => world.push(`${name} back`)) });

describe("A retry of a failed undo", () => {
  it.each([
    ["a promise", async () => ({})],
    ["a single statement", () => ({ statements: sql`SELECT 1` })],
  ])("W19 a retry of a failed undo calls an undo handler again that had returned %s, and writes its record", async (_, wrong) => {
    const state = { wrong: true };
    const { instanceId } = await runLab(({ step }) =>
      step.commit("write", () => ({}), { undo: (() => (state.wrong ? wrong() : {})) as never }),
    );
    expect(await ended(instanceId)).toBe("complete");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ code: "config_invalid", step: "undo write", attempts: 1 });
    expect(await stateOf(instanceId, "write")).toBe("done");
    state.wrong = false;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
  });

  it.each(["keyed", "once", "natural"] as const)(
    "W19 I15 a retry of a failed undo does not repeat a %s undo handler with an output that could not be stored",
    async (of) => {
      const refunds: string[] = [];
      const refund = effect(of, async ({ key }) => {
        refunds.push(key);
        return cyclic();
      });
      const { instanceId } = await runLab(({ step }) =>
        step.effect(
          "pay",
          effect("keyed", async () => 1, { undo: refund as never }),
          null,
        ),
      );
      expect(await ended(instanceId)).toBe("complete");
      await undo(instanceId);
      expect(await ended(instanceId)).toBe("errored");
      expect(await errorOf(instanceId)).toMatchObject({ code: "output_not_serializable" });
      await expect(retry(instanceId)).rejects.toMatchObject({ code: "invalid_transition" });
      await resolve(instanceId, "undo pay", { verb: "confirm", output: "refund-1" });
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("terminated");
      expect(refunds).toHaveLength(1);
    },
  );

  it.each([true, false])(
    "W20 W25 a retry of a failed undo continues at the lookup of an effect with a caught failure (it happened: %s)",
    async (found) => {
      const world: string[] = [];
      const upstream = { away: true, found };
      const { instanceId } = await runLab(async ({ step }) => {
        await step.effect("book", booking(world, upstream), null).catch((error: Error) => {
          if (error.message !== "No answer.") throw error;
          return step.effect("van", van(world), null);
        });
      });
      expect(await ended(instanceId)).toBe("complete");
      await undo(instanceId);
      expect(await ended(instanceId)).toBe("errored");
      expect(await errorOf(instanceId)).toMatchObject({ step: "book" });
      upstream.away = false;
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("terminated");
      expect(world.toSorted()).toEqual(found ? ["booked", "booking back", "van", "van back"] : ["van", "van back"]);
    },
  );
});

describe("An undo", () => {
  it("W25 I15 an undo consequence the code's handling of a failure after a retry that failed the same way", async () => {
    const world: string[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      const pay = effect("once", async () => Promise.reject(notRetryable("No funds.")));
      await step.effect("pay", pay, null).catch(async (cause: Error) => {
        if (!/No funds/.test(cause.message)) throw cause;
        await step.effect("hold", van(world, "hold"), null);
        throw new Error("Not paid.", { cause });
      });
    });
    expect(await ended(instanceId)).toBe("errored");
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("errored");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    expect(world).toEqual(["hold", "hold back"]);
  });

  it("W25 I15 an undo undoes the effects after a read that succeeded in one run and failed in the next", async () => {
    const world: string[] = [];
    const list = { gone: false, complete: false };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.read("look", async () => {
        if (list.gone) throw notRetryable("The list does not exist.");
      });
      await step.effect("van", van(world), null);
      if (!list.complete) throw new Error("A setting is missing.");
    });
    expect(await ended(instanceId)).toBe("errored");
    Object.assign(list, { gone: true, complete: true });
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "look" });
    list.gone = false;
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    expect(world).toEqual(["van", "van back"]);
  });

  it("W18 I13 an undo that the platform restarts after its end undoes nothing again: effects of a later retry remain", async () => {
    const world: string[] = [];
    let over = false;
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("van", van(world), null);
      await step.read("wait for the end", () => held(() => over || world.length < 3));
    });
    expect(await ended(instanceId)).toBe("complete");
    const { action_id: actionId } = await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    await retry(instanceId);
    await until(
      async () => world.length,
      (length) => length === 3,
    );
    const undoing = await LAB.get(platformId(instanceId, actionId));
    await undoing.restart();
    await until(
      async () => (await undoing.status()).status,
      (status) => status === "errored",
    );
    over = true;
    expect(await ended(instanceId)).toBe("complete");
    expect(world).toEqual(["van", "van back", "van"]);
  });

  it("W33 W10 an undo waits until the platform has ended the run, and includes the run's late effects", async () => {
    const world: string[] = [];
    let [isReading, released] = [false, false];
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("van", van(world), null);
      await step.read("goes on", () => {
        isReading = true;
        return held(() => released);
      });
      await step.effect("late van", van(world, "late van"), null);
    });
    await until(
      async () => isReading,
      (reading) => reading,
    );
    // A row may be errored for a moment, when a replay has failed and the platform starts another one.
    await saysErrored(instanceId);
    const asked = undo(instanceId);
    await scheduler.wait(300);
    expect(world).toEqual(["van"]);
    released = true;
    await asked;
    await until(
      async () => {
        await keeperRound();
        return world.length;
      },
      (length) => length === 4,
    );
    expect(world).toEqual(["van", "late van", "late van back", "van back"]);
  });

  it("W19 I3 a second undo of an instance has its own record, although the database refuses other statements of its batch", async () => {
    const world: string[] = [];
    const van = effect("keyed", async () => world.push("van"), {
      undo: back(async () => {
        world.push("van back");
        if (world.length === 4) refuseRecords(instanceId, 8);
      }),
    });
    const { instanceId } = await runLab(({ step }) => step.effect("van", van, null));
    expect(await ended(instanceId)).toBe("complete");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    expect(world).toEqual(["van", "van back", "van", "van back"]);
    const backs = await rows<{ state: string }>(
      "SELECT state FROM millrace_inbox WHERE instance_id = ?1 AND step = 'undo van'",
      instanceId,
    );
    expect(backs).toEqual([{ state: "done" }, { state: "done" }]);
  });

  it("W20 I15 an undo handles a looked-up effect in the reverse order of the run, as its dry run says", async () => {
    const world: string[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("book", booking(world, { away: false, found: true }), null).catch(() => undefined);
      await step.effect("van", van(world), null);
    });
    expect(await ended(instanceId)).toBe("complete");
    expect((await instances.plan(probeEnv, operator, "undo", instanceId, {})).effects.map(({ step }) => step)).toEqual(["van", "book"]);
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    expect(world).toEqual(["booked", "van", "van back", "booking back"]);
  });

  it("W10 an undo prevents a late write by a commit that had timed out", async () => {
    let released = false;
    const { instanceId } = await runLab(async ({ step }) => {
      await step.effect("van", van([]), null);
      const slow = async () => {
        while (!released) await scheduler.wait(20);
        return {};
      };
      await step.commit("book", slow, { ...ONCE, timeout: 10 });
    });
    expect(await ended(instanceId)).toBe("errored");
    await undo(instanceId);
    expect(await ended(instanceId)).toBe("terminated");
    released = true;
    await scheduler.wait(500);
    expect(await stateOf(instanceId, "book")).toBe("failed");
  });
});

it.each([
  { what: "ends that run at once if the instance was undone or cancelled", undone: true, tries: 1 },
  { what: "polls that run every ten seconds if the instance failed, and ends the run at the sixth attempt", undone: false, tries: 6 },
])("W33 a retry of a run that a crash left asleep on the platform $what", async ({ undone, tries }) => {
  const { instanceId } = await runLab(({ step }) => step.sleep("rest", "1 hour"));
  await platformReaches(instanceId, "running", "waiting");
  await rows("UPDATE millrace_instances SET status = 'running', run = 2 WHERE id = ?1", instanceId);
  const id = crypto.randomUUID();
  await rows(
    `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, detail, result, at, due_at)
     SELECT ?1, tenant_id, 'tess', 'retry', id, id, 'again', ?2, 'applied', ?3, 0 FROM millrace_instances WHERE id = ?4`,
    id,
    JSON.stringify({ from: null, run: 2, ...(undone && { undone }) }),
    Date.now() - 60_000,
    instanceId,
  );
  const action = async () =>
    (
      await rows<{ attempts: number; pause: number; applied_at: number | null; restarted_at: number | null }>(
        "SELECT attempts, applied_at, restarted_at, due_at - ?2 AS pause FROM millrace_actions WHERE id = ?1",
        id,
        Date.now(),
      )
    )[0];
  for (let nth = 1; nth < tries; nth++) {
    await keeperRound();
    const { attempts, pause = 0 } = (await action()) ?? {};
    expect([attempts, Math.round(pause / 10_000)]).toEqual([nth, 1]);
    await rows("UPDATE millrace_actions SET due_at = 0 WHERE id = ?1", id);
  }
  await keeperRound();
  expect(await action()).toMatchObject({ applied_at: expect.any(Number), restarted_at: expect.any(Number) });
});
