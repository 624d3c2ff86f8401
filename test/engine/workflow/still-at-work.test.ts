import { defineStep, ids, sql } from "millrace";
import { describe, expect, it } from "vitest";
import { dieAt, fresh, keeperRound, pauseAt, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, LAB, platformReaches, restartLab, runLab } from "../lab.ts";
import { back, effect, ended, failed, ONCE, resolve, retry, stateOf, undo } from "../operate/operating.ts";
import { refuse } from "../replay/refuse.ts";

describe("A hung attempt that the platform has aborted", () => {
  /** Runs a step that hangs at this crash point until the code has continued with its fallback. */
  async function givenUp(
    point: "W06 about to record" | "W01 claimed, effect not started",
    first: (step: import("millrace").Steps, name: string) => Promise<unknown>,
  ) {
    const name = fresh("late");
    const pause = pauseAt(point, name);
    let over = false;
    const { instanceId } = await runLab(
      async ({ step }) => {
        await first(step, name).catch(() => step.commit("instead", () => ({})));
        await step.read("end", () => held(() => over));
      },
      { name },
    );
    await until(
      () => stateOf(instanceId, "instead"),
      (state) => state === "done",
    );
    pause.release();
    await scheduler.wait(500);
    over = true;
    expect(await ended(instanceId)).toBe("complete");
    return { name, instanceId };
  }

  it("W01 W04 W25 an aborted attempt writes no commit and begins no effect, because the code has continued without it", async () => {
    const did: string[] = [];
    const effect = defineStep<unknown, unknown>({
      effect: "lookup",
      timeout: 300,
      ...ONCE,
      run: async () => did.push("first"),
      lookup: async () => undefined,
    });
    const row = (about: string) => sql`INSERT INTO probe_rows (id, kind, name) VALUES (${fresh()}, 'late', ${about})`;
    const { name, instanceId } = await givenUp("W06 about to record", (step, about) =>
      step.commit("first", () => ({ statements: [row(about)] }), { ...ONCE, timeout: 300 }),
    );
    await givenUp("W01 claimed, effect not started", (step) => step.effect("first", effect, {}));
    expect(await rows("SELECT 1 FROM probe_rows WHERE name = ?1", name)).toEqual([]);
    expect([await stateOf(instanceId, "first"), did]).toEqual(["failed", []]);
  });
});

describe("Code that waits outside of steps", () => {
  it.concurrent("W25 code that waits outside of steps has the same race winner in every replay", async () => {
    const world = { broken: true, won: false };
    const { instanceId } = await runLab(async ({ step }) => {
      const fast = step
        .effect(
          "fast",
          effect("keyed", async () => "fast"),
          {},
        )
        .then((name) => scheduler.wait(50).then(() => name));
      const slow = step.effect(
        "slow",
        effect("keyed", () => held(() => world.won).then(() => "slow")),
        {},
      );
      const winner = await Promise.race([fast, slow]);
      world.won = true;
      await step.commit(`${winner} won` as "won", () => ({}));
      await slow;
      await step.read(
        "check",
        refuse(
          () => world.broken,
          () => 1,
        ),
        ONCE,
      );
    });
    await failed(instanceId);
    world.broken = false;
    await restartLab(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(await stateOf(instanceId, "fast won")).toBe("done");
  });

  it.concurrent("W19 an undo waits for a branch that waits outside of steps, while another branch has nothing to undo", async () => {
    const did: string[] = [];
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      const check = async () => {
        await step.read("wait for the payment", () => held(async () => (await stateOf(id, "pay")) === "done"));
        await step.effect(
          "check",
          effect("keyed", async () => Promise.reject(new Error("Broken."))),
          {},
        );
      };
      const pay = async () => {
        await step.commit("order", () => ({}));
        await scheduler.wait(50);
        await step.effect(
          "pay",
          effect("keyed", async () => did.push("pay"), { undo: back(async () => did.push("refund")) }),
          {},
        );
      };
      await Promise.all([check(), pay()]);
    });
    await failed(instanceId);
    await undo(instanceId);
    expect(await reaches(instanceId, "errored", "terminated")).toBe("terminated");
    expect(did).toEqual(["pay", "refund"]);
  });
});

it("A03 an unawaited last effect is executed also when the keeper starts the run", async () => {
  let did = 0;
  const name = fresh("last");
  dieAt("A03 accept committed, not enqueued");
  await expect(
    runLab(
      async ({ step }) =>
        void step.effect(
          "mail",
          effect("keyed", async () => ++did),
          {},
        ),
      { name },
    ),
  ).rejects.toThrow("Died");
  await keeperRound();
  expect(await ended(ids.instance("acme", "lab", name))).toBe("complete");
  expect(did).toBe(1);
});

it.concurrent("W17 a retry repeats the step that failed its run, also when it starts at a corrected output before that step", async () => {
  const world = { broken: true };
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    const check = effect(
      "keyed",
      async () => {
        await held(async () => (await stateOf(id, "mail")) === "done");
        if (world.broken) throw new Error("Broken.");
      },
      { timeout: 20_000 },
    );
    const mail = effect("once", async () => Promise.reject(new Error("Lost.")));
    await Promise.all([step.effect("check", check, {}), step.effect("mail", mail, {})]);
  });
  expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
  await resolve(instanceId, "mail", { verb: "confirm", output: "wrong" });
  await failed(instanceId);
  await resolve(instanceId, "mail", { verb: "confirm", output: "right" });
  world.broken = false;
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
});

// This test is separate, because its many steps need most of the runtime's capacity.
it("W25 a commit after 700 caught failures is recorded, and so is the run's end", async () => {
  const world = { broken: true };
  const { instanceId } = await runLab(async ({ step }) => {
    const items = Array.from({ length: 700 }, (_, index) => String(index));
    const page = new Error("漢".repeat(1000));
    await step.map(items, { key: (item) => item, concurrency: 200 }, (_, one) =>
      one.read("fetch", () => Promise.reject(page), ONCE).catch(() => undefined),
    );
    await step.commit("note", () => ({}));
    if (world.broken) throw new Error("A setting is missing.");
  });
  const reached = () =>
    until(
      () => statusOf(instanceId),
      (status) => status === (world.broken ? "errored" : "complete"),
      150_000,
    );
  expect(await reached()).toBe("errored");
  await failed(instanceId);
  expect(await errorOf(instanceId)).toMatchObject({ message: "A setting is missing." });
  world.broken = false;
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
});

it.concurrent("W14 a retry from the beginning does not repeat a sleep that ended before a later step", async () => {
  const world = { missing: true };
  const { instanceId } = await runLab(async ({ step }) => {
    const nap = step.sleep("nap", world.missing ? 1000 : "1 hour");
    await Promise.race([nap, step.read("look", async () => 1)]);
    await nap;
    await step.commit("note", () => ({}));
    if (world.missing) throw new Error("A setting is missing.");
  });
  await failed(instanceId);
  world.missing = false;
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
});

it.concurrent("W14 a sleep that the platform pauses continues when it is resumed, and the code gets no error", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("before", () => ({}));
    // The sleep is long enough for a pause on a busy machine.
    await step.sleep("nap", 5000).catch(() => step.commit("instead", () => ({})));
    await step.commit("behind", () => ({}));
  });
  await until(
    () => stateOf(instanceId, "before"),
    (state) => state === "done",
  );
  const instance = await LAB.get(instanceId);
  await instance.pause();
  await platformReaches(instanceId, "paused");
  await instance.resume();
  expect(await ended(instanceId)).toBe("complete");
  expect(await stateOf(instanceId, "instead")).toBeUndefined();
});
