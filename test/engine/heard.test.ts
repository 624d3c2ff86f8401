import { defineStep, instanceId as idOf, sql, upstreamRefused } from "millrace";
import { planUndo } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { dieAt, fresh, keeperRound, operator, pauseAt, probeEnv, reaches, rows, statusOf, until } from "./harness.ts";
import { errorOf, held, LAB, platformReaches, restartLab, runLab } from "./lab.ts";
import { back, effect, ended, failed, ONCE, resolve, retry, stateOf, undo } from "./operating.ts";

const refuse = (broken: () => boolean, did: () => unknown) => async () => (broken() ? Promise.reject(upstreamRefused("No.", 402)) : did());

describe("What the code had heard stays the way that it went", () => {
  it("W25 of several failures the run's is the one that it heard of last: what was done because of the others stays alone", async () => {
    const world = { broken: true, did: [] as string[] };
    const { instanceId } = await runLab(async ({ step }) => {
      const one = (name: string) =>
        effect(
          "once",
          refuse(
            () => world.broken,
            () => world.did.push(name),
          ),
        );
      const card = await step.effect("card", one("card"), {}).catch((error: Error) => error);
      await step.commit("invoice", () => ({}));
      const mail = await step.effect("mail", one("mail"), {}).catch((error: Error) => error);
      if (world.broken) throw new AggregateError([card, mail], "Neither.");
    });
    await failed(instanceId);
    expect(await errorOf(instanceId)).toMatchObject({ step: "mail" });
    world.broken = false;
    await retry(instanceId);
    expect(await ended(instanceId)).toBe("complete");
    expect(world.did).toEqual(["mail"]);
  });

  it("W15 I17 in a complete run that the platform makes anew, where nothing was recorded behind the failure", async () => {
    const world = { broken: true, sent: 0 };
    const { instanceId } = await runLab(async ({ step }) => {
      const found = await step
        .read(
          "look",
          refuse(
            () => world.broken,
            () => 1,
          ),
          ONCE,
        )
        .catch(() => undefined);
      if (found)
        await step.effect(
          "send",
          effect("keyed", async () => ++world.sent),
          {},
        );
    });
    expect(await ended(instanceId)).toBe("complete");
    world.broken = false;
    expect(await restartLab(instanceId)).toBe("complete");
    expect([world.sent, await statusOf(instanceId)]).toEqual([0, "complete"]);
  });

  it("W15 I17 in a complete run that the platform makes anew, where a race with nothing behind it comes out otherwise now", async () => {
    const did: string[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      const slow = step.effect(
        "slow",
        effect("keyed", () => scheduler.wait(1500).then(() => "slow")),
        {},
      );
      const first = await Promise.race([slow, step.sleep("limit", 300).then(() => "limit")]);
      if (first === "slow")
        await step.effect(
          "celebrate",
          effect("keyed", async () => did.push("celebrated")),
          {},
        );
    });
    expect(await ended(instanceId)).toBe("complete");
    expect([await restartLab(instanceId), await statusOf(instanceId), did]).toEqual(["complete", "complete", []]);
  });

  it.each(["retry", "restart"])(
    "W25 W15 where a read fails now that had answered before (%s): it does no other thing as well",
    async (how) => {
      const world = { away: false, missing: true, did: [] as string[] };
      const { instanceId } = await runLab(async ({ step }) => {
        const credit = await step
          .read(
            "credit",
            refuse(
              () => world.away,
              () => 1,
            ),
            ONCE,
          )
          .catch(() => undefined);
        const what = credit ? "charge" : "invoice";
        if (credit)
          await step.effect(
            "charge",
            effect("keyed", async () => world.did.push(what)),
            {},
          );
        else
          await step.effect(
            "invoice",
            effect("keyed", async () => world.did.push(what)),
            {},
          );
        if (world.missing) throw new Error("A setting is missing.");
      });
      await failed(instanceId);
      Object.assign(world, { away: true, missing: how === "restart" });
      if (how === "retry") await retry(instanceId);
      else await restartLab(instanceId);
      await failed(instanceId);
      expect(world.did).toEqual(["charge"]);
      Object.assign(world, { away: false, missing: false });
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("complete");
      expect(world.did).toEqual(["charge"]);
    },
  );

  it.each(["retry", "restart"])(
    "W25 W15 where a read fails now that had answered before, and lost a race (%s): the race stays won",
    async (how) => {
      const world = { away: false, missing: true, did: [] as string[] };
      const { instanceId } = await runLab(async ({ step }) => {
        const did = (what: string) => effect("keyed", async () => world.did.push(what));
        const credit = step.read(
          "credit",
          refuse(
            () => world.away,
            () => 1,
          ),
          ONCE,
        );
        try {
          await Promise.race([
            Promise.all([credit, step.sleep("think", 2000)]),
            credit.then(() => step.effect("charge", did("charge"), {})),
          ]);
          await step.effect("thank", did("thank"), {});
        } catch {
          await step.effect("invoice", did("invoice"), {});
        }
        if (world.missing) throw new Error("A setting is missing.");
      });
      await failed(instanceId);
      Object.assign(world, { away: true, missing: how === "restart" });
      if (how === "retry") await retry(instanceId);
      else await restartLab(instanceId);
      await failed(instanceId);
      if (how === "retry") expect(await errorOf(instanceId)).toMatchObject({ step: "credit", code: "upstream_refused" });
      expect(world.did).toEqual(["charge", "thank"]);
      Object.assign(world, { away: false, missing: false });
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("complete");
      expect(world.did).toEqual(["charge", "thank"]);
    },
  );

  it.each(["unnamed", "named"])(
    "W25 where what was done instead is recorded nowhere, because its answer was lost: no retry (%s) does both",
    async (how) => {
      const world = { card: false, answers: false, missing: true, did: [] as string[] };
      const { instanceId } = await runLab(async ({ step }) => {
        const charge = effect(
          "once",
          refuse(
            () => !world.card,
            () => world.did.push("card"),
          ),
        );
        const card = step.effect("card", charge, {}).catch(() => undefined);
        const invoice = async () => {
          if (await card) return;
          await step.effect(
            "invoice",
            effect("keyed", async () => {
              world.did.push("invoice");
              if (!world.answers) throw new Error("Lost.");
            }),
            {},
          );
        };
        const check = async () => {
          await card;
          await scheduler.wait(100);
          if (world.missing) throw new Error("A setting is missing.");
        };
        await Promise.all([invoice().catch((error) => (how === "named" ? undefined : Promise.reject(error))), check()]);
      });
      await failed(instanceId);
      Object.assign(world, { card: true, answers: true, missing: false });
      if (how === "named")
        await expect(retry(instanceId, { from: "card" })).rejects.toMatchObject({
          message: expect.stringContaining('"invoice" depends on that'),
        });
      // Also what is refused is on record.
      if (how === "named")
        expect(await rows("SELECT result FROM actions WHERE instance_id = ?1", instanceId)).toEqual([{ result: "no_change" }]);
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("complete");
      expect(world.did).not.toContain("card");
    },
  );

  it("W25 where what was done instead was in doubt, done once more, and refused then", async () => {
    const world = { card: false, mode: "lost" };
    const { instanceId } = await runLab(async ({ step }) => {
      const card = await step
        .effect(
          "card",
          effect(
            "once",
            refuse(
              () => !world.card,
              () => 1,
            ),
          ),
          {},
        )
        .catch(() => undefined);
      if (!card)
        await step.effect(
          "invoice",
          effect("once", async () => Promise.reject(world.mode === "lost" ? new Error("Lost.") : upstreamRefused("Later."))),
          {},
        );
    });
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    world.mode = "refused";
    await resolve(instanceId, "invoice", { verb: "retry_anyway" });
    await failed(instanceId);
    world.card = true;
    await expect(retry(instanceId, { from: "card" })).rejects.toMatchObject({ code: "invalid_transition" });
  });
});

describe("An undo", () => {
  it("W19 that met a read in trouble takes back what there is once that is over, though the code catches the failure", async () => {
    const world = { away: false, did: [] as string[] };
    const { instanceId } = await runLab(async ({ step }) => {
      const config = await step
        .read(
          "config",
          refuse(
            () => world.away,
            () => 1,
          ),
          ONCE,
        )
        .catch(() => undefined);
      const pay = effect("keyed", async () => world.did.push("pay"), { undo: back(async () => world.did.push("refund")) });
      if (config) await step.effect("pay", pay, {});
    });
    expect(await ended(instanceId)).toBe("complete");
    world.away = true;
    await undo(instanceId);
    expect(await reaches(instanceId, "errored", "terminated")).toBe("errored");
    world.away = false;
    await retry(instanceId);
    expect(await reaches(instanceId, "errored", "terminated")).toBe("terminated");
    expect(world.did).toEqual(["pay", "refund"]);
  });

  it("W19 takes nothing back with another input than went in, while a read fails whose answer that came from", async () => {
    const world = { away: false, did: [] as unknown[] };
    const { instanceId } = await runLab(async ({ step }) => {
      const region = await step
        .read(
          "region",
          refuse(
            () => world.away,
            () => "us",
          ),
          ONCE,
        )
        .catch(() => "eu");
      const create = effect("keyed", async ({ input }) => world.did.push(input), {
        undo: back(async ({ input }) => world.did.push(input.input)),
      });
      await step.effect("create", create, region);
    });
    expect(await ended(instanceId)).toBe("complete");
    world.away = true;
    await undo(instanceId);
    expect(await reaches(instanceId, "errored", "terminated")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "region" });
    world.away = false;
    await retry(instanceId);
    expect(await reaches(instanceId, "errored", "terminated")).toBe("terminated");
    expect(world.did).toEqual(["us", "us"]);
  });

  it("W19 goes the way of the last run, where that failed in other words than the one before", async () => {
    const world = { broken: true, asked: 0, did: [] as string[] };
    const { instanceId } = await runLab(async ({ step }) => {
      const sorry = effect("keyed", async () => world.did.push("sorry"), { undo: back(async () => world.did.push("not sorry")) });
      await step
        .read("stock", async () => (world.broken ? Promise.reject(new Error(`Request ${++world.asked} failed.`)) : 1), ONCE)
        .catch(async (error) => {
          await step.effect("apologise", sorry, {});
          throw error;
        });
    });
    await failed(instanceId);
    await retry(instanceId);
    await failed(instanceId);
    world.broken = false;
    await undo(instanceId);
    expect(await reaches(instanceId, "errored", "terminated")).toBe("terminated");
    expect(world.did).toEqual(["sorry", "not sorry"]);
  });

  it("W20 says in its plan what a person had done once more, because nobody knew whether it had happened", async () => {
    const world = { mode: "lost" };
    const { instanceId } = await runLab(async ({ step }) => {
      await step.commit("note", () => ({}), { undo: () => ({}) });
      const ship = effect("once", async () => Promise.reject(world.mode === "lost" ? new Error("Lost.") : upstreamRefused("No.")), {
        undo: back(async () => 1),
      });
      await step.effect("ship", ship, {});
    });
    expect(await reaches(instanceId, "in_doubt")).toBe("in_doubt");
    world.mode = "refused";
    await resolve(instanceId, "ship", { verb: "retry_anyway" });
    await failed(instanceId);
    expect((await planUndo(probeEnv, operator, instanceId)).effects).toMatchObject([
      { step: "ship", verdict: "nothing" },
      { step: "ship", verdict: "unknown" },
      { step: "note", verdict: "undone" },
    ]);
  });
});

describe("An attempt that the platform has given up, while it was paused", () => {
  /** A first way whose attempt is paused at this point, and another that the code goes then. */
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

  it("W01 W04 W25 writes no commit, and begins no effect: the code went on without", async () => {
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

describe("Code that works for itself between two steps", () => {
  it("W25 has the same winner of a race on every pass", async () => {
    const world = { broken: true };
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
        effect("keyed", () => scheduler.wait(200).then(() => "slow")),
        {},
      );
      await step.commit(`${await Promise.race([fast, slow])} won` as "won", () => ({}));
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

  it("W19 is waited for by an undo, whose other branch has nothing to take back", async () => {
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

it("A03 An effect that the code began last, and did not wait for, is done also where the keeper starts the run", async () => {
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

it("W17 A retry tries the step that its run failed with, also where it starts at an output that was mended since", async () => {
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

it("W25 A commit behind seven hundred caught failures is recorded, and so is a run's end", async () => {
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
  await failed(instanceId);
  expect(await errorOf(instanceId)).toMatchObject({ message: "A setting is missing." });
  world.broken = false;
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
});

it("W14 A sleep that was over before something was done is not slept again by a retry from the beginning", async () => {
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

it("W14 Code hears nothing of a pause: a sleep that the platform pauses goes on when it is resumed", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("before", () => ({}));
    await step.sleep("nap", 1500).catch(() => step.commit("instead", () => ({})));
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
