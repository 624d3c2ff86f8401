import { upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { operator, probeEnv, reaches } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, effect, ended, failed, ONCE, resolve, retry, undo } from "../operate/operating.ts";
import { refuse } from "../replay/refuse.ts";

describe("An undo", () => {
  it("W19 an undo that failed at a read undoes the effects once the read succeeds, although the code catches the read's failure", async () => {
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

  it("W19 an undo does not run with another input while the read fails that provided the original input", async () => {
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

  it("W19 an undo follows the branch of the last run when its caught error had another message in the run before", async () => {
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

  it("W20 the dry run of an undo lists an effect that an operator repeated after an unknown outcome", async () => {
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
    expect((await instances.plan(probeEnv, operator, "undo", instanceId, {})).effects).toMatchObject([
      { step: "ship", verdict: "nothing" },
      { step: "ship", verdict: "unknown" },
      { step: "note", verdict: "undone" },
    ]);
  });
});
