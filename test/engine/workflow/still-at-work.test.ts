import { defineStep, instanceId as idOf, sql } from "millrace";
import { describe, expect, it } from "vitest";
import { dieAt, fresh, keeperRound, pauseAt, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, LAB, platformReaches, restartLab, runLab } from "../lab.ts";
import { back, effect, ended, failed, ONCE, resolve, retry, stateOf, undo } from "../operate/operating.ts";
import { refuse } from "../pass/refuse.ts";

describe("A paused attempt that the platform has aborted", () => {
  /** A first branch with an attempt paused at this point, and the fallback of the code. */
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

  it("W01 W04 W25 writes no commit and begins no effect, because the code has continued without it", async () => {
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
  it.concurrent("W25 has the same race winner in every replay", async () => {
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

  it.concurrent("W19 is awaited by an undo while its other branch has nothing to undo", async () => {
    const did: string[] = [];
    const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
      const check = async () => {
        await step.read("until it is paid", () => held(async () => (await stateOf(id, "pay")) === "done"));
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

it("A03 An unawaited last effect of the code is done also when the keeper starts the run", async () => {
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
  expect(await ended(idOf("acme", "lab", name))).toBe("complete");
  expect(did).toBe(1);
});

it.concurrent("W17 A retry repeats the step that failed its run, also when it starts at an output that was corrected since", async () => {
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

// In a test of its own: this number of steps leaves the others little of the runtime.
it("W25 A commit after seven hundred caught failures is recorded, and so is the run's end", async () => {
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

it.concurrent("W14 A sleep that ended before a later step is not repeated by a retry from the beginning", async () => {
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

it.concurrent("W14 Code does not see a pause: a sleep that the platform pauses continues when it is resumed", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("before", () => ({}));
    // Long enough for the pause to come within it, on a busy machine too.
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
