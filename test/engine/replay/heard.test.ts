import { notRetryable, upstreamRefused } from "millrace";
import { describe, expect, it } from "vitest";
import { reaches, rows, statusOf } from "../harness.ts";
import { errorOf, held, outputOf, restartLab, runLab } from "../lab.ts";
import { effect, ended, failed, ONCE, resolve, retry } from "../operate/operating.ts";
import { refuse } from "./refuse.ts";

describe("The branch that code takes after an error it caught", () => {
  it("W25 a retry throws earlier caught failures to the code again, and repeats only the failure that the code received last", async () => {
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

  it("W15 I17 a complete run that the platform restarts takes the same branch after a caught failure without a later record", async () => {
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

  it("W15 I17 a complete run that the platform restarts has the same winner of a race, although the loser would now be faster", async () => {
    const did: string[] = [];
    let isOver = false;
    const { instanceId } = await runLab(async ({ step }) => {
      const slow = step.effect(
        "slow",
        effect("keyed", () => held(() => isOver).then(() => "slow")),
        {},
      );
      const first = await Promise.race([slow, step.sleep("limit", 300).then(() => "limit")]);
      isOver = true;
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

  it.each(["retry", "restart"])("W25 W15 a run keeps its branch when a read that had succeeded fails in a later run (%s)", async (how) => {
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
  });

  it.each(["retry", "restart"])(
    "W25 W15 a run keeps its branch when a read that had succeeded and lost a race fails in a later run (%s)",
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
    "W25 a run keeps its branch when the answer to its unrecorded fallback was lost: no retry (%s) runs both branches",
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
          message: expect.stringContaining('continued with "invoice"'),
        });
      // Refused retries are also in the audit log.
      if (how === "named")
        expect(await rows("SELECT result FROM millrace_actions WHERE instance_id = ?1", instanceId)).toEqual([{ result: "no_change" }]);
      await retry(instanceId);
      expect(await ended(instanceId)).toBe("complete");
      expect(world.did).not.toContain("card");
    },
  );

  it("W25 a retry from a step with a caught failure is refused when its fallback was in doubt, repeated, and then refused", async () => {
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

it.each(["constructor", "toString", "__proto__"])("a step may be named %s, like a property of every object", async (named) => {
  const state = { isBroken: true };
  const { instanceId } = await runLab(async ({ step }) => {
    const heard = await step.commit(named as never, () => ({ output: 7 }));
    await step.commit("after it", () => ({}));
    await step.read("mended", () => (state.isBroken ? Promise.reject(notRetryable("Broken.")) : 1));
    return heard;
  });
  await failed(instanceId);
  state.isBroken = false;
  await retry(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(await outputOf(instanceId)).toBe(7);
});
