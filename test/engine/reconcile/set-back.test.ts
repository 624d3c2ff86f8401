import { defineStep, sql, upstreamRefused } from "millrace";
import { approvals, effects as engineEffects, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { findSetBack } from "../../../packages/millrace/src/operate/instances/past.ts";
import { mode } from "../../probe/mode.ts";
import { deliver, fresh, keeperRound, operator, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { errorOf, held, platformReaches, runLab } from "../lab.ts";
import { hear, openWaits, say } from "../signals/waiting.ts";
import { lookAgain, noted, walk } from "./walking.ts";

const HOUR_MS = 3_600_000;

/** A simulated upstream with one effect of each class. */
function effects() {
  const world: string[] = [];
  const did = async (what: string) => {
    world.push(what);
    return what;
  };
  return {
    world,
    mail: defineStep<null, string>({ effect: "once", run: () => did("mail") }),
    book: defineStep<null, string>({
      effect: "lookup",
      run: () => did("book"),
      lookup: async () => {
        await did("asked");
        return world.includes("book") ? "book" : undefined;
      },
    }),
    pay: defineStep<null, string>({ effect: "keyed", run: ({ key }) => did(`pay ${key}`) }),
  };
}

const row = (name: string) => sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, 'commit', ${name})`;
const rowsOf = (name: string) => rows("SELECT 1 FROM probe_rows WHERE name = ?1", name);

/** Deletes the inbox entries and rows of a run, as a restore of an older backup does. */
async function setBack(instanceId: string, name: string): Promise<void> {
  await rows("DELETE FROM millrace_inbox WHERE instance_id = ?1", instanceId);
  await rows("DELETE FROM probe_rows WHERE name = ?1", name);
}

async function doubtOf(instanceId: string) {
  expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
  const [effect] = (await instances.effects(probeEnv, operator, instanceId)).filter(({ state }) => state === "in_doubt");
  return effect;
}

describe("A database that was restored to a time before a run's steps", () => {
  it("W17 the scan finds a run with steps after a restored backup; a restart repeats all steps but once effects, which become in_doubt", async () => {
    const name = fresh("lab");
    const { world, mail, book, pay } = effects();
    const { instanceId } = await runLab(
      async ({ step }) => {
        await hear(step, "first", `${name}/1`, HOUR_MS);
        await step.effect("mail", mail, null);
        await step.effect("book", book, null);
        await step.effect("pay", pay, null);
        await step.commit("note", () => ({ statements: [row(name)] }));
        await hear(step, "second", `${name}/2`, HOUR_MS);
        await step.commit("end", () => ({}));
      },
      { name },
    );
    await openWaits(instanceId, 1);
    await deliver("probe-events", [say(`${name}/1`, "go")]);
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", instanceId),
      ([one]) => one !== undefined,
    );
    await setBack(instanceId, name);
    await rows("DELETE FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", instanceId);
    await rows("UPDATE millrace_instances SET status = 'waiting', updated_at = updated_at - 3600000 WHERE id = ?1", instanceId);
    await walk();
    await lookAgain(instanceId);
    expect(await noted(instanceId)).toMatchObject([{ kind: "database_set_back", state: "open", repairs: 0 }]);

    const plan = await instances.plan(probeEnv, operator, "restart", instanceId, {});
    expect(plan.consequence).toContain("A lookup effect asks the upstream first, a once effect becomes in_doubt");
    expect(plan.effects).toEqual(["mail", "book", "pay", "note", "second"].map((step) => ({ step, item: "", verdict: "unknown" })));
    await instances.act(probeEnv, operator, "restart", instanceId, { reason: "a backup was restored" });
    await keeperRound();
    const effect = await doubtOf(instanceId);
    expect(effect).toMatchObject({ step: "mail", error: { message: expect.stringContaining("restored to an earlier time") } });
    await engineEffects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "mail" }, "in the sent folder");
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", instanceId),
      ([one]) => one !== undefined,
    );
    const [first, ...others] = world.filter((one) => one.startsWith("pay"));
    expect(world).toEqual(["mail", "book", first, "asked", ...others]);
    expect(others).toEqual([first]);
    expect(await rowsOf(name)).toHaveLength(1);
    await deliver("probe-events", [say(`${name}/2`, "end")]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it.each(["platform", "inline"] as const)(
    "W15 a command that is accepted again after a restored backup fails until a restart, and does not complete without its rows (step mode %s)",
    async (steps) => {
      mode.steps = steps;
      try {
        const name = fresh("lab");
        const { world, mail } = effects();
        const work = () =>
          runLab(
            async ({ step }) => {
              await step.commit("note", () => ({ statements: [row(name)] }));
              await step.effect("mail", mail, null);
            },
            { name },
          );
        const { instanceId } = await work();
        await reaches(instanceId, "complete");
        await platformReaches(instanceId, "complete");
        await setBack(instanceId, name);
        await rows("DELETE FROM millrace_instances WHERE id = ?1", instanceId);
        expect(await work()).toMatchObject({ instanceId, replayed: false });
        // The platform has no times of inline steps, so the test makes the row younger than the platform's run.
        await rows("UPDATE millrace_instances SET accepted_at = accepted_at + 120000 WHERE id = ?1", instanceId);
        await until(
          async () => {
            await keeperRound();
            return statusOf(instanceId);
          },
          (status) => status === "errored" || status === "complete",
        );
        expect(await errorOf(instanceId)).toMatchObject({
          code: "database_set_back",
          message: expect.stringContaining("Restart the instance"),
        });
        await instances.act(probeEnv, operator, "restart", instanceId, { reason: "a backup was restored" });
        await keeperRound();
        const effect = await doubtOf(instanceId);
        await engineEffects.resolve(probeEnv, operator, effect?.key ?? "", { verb: "confirm", output: "mail" }, "in the sent folder");
        expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
        expect([world, await rowsOf(name)]).toEqual([["mail"], [expect.anything()]]);
      } finally {
        mode.steps = "platform";
      }
    },
  );

  it.each(["platform", "inline"] as const)(
    "W17 a run with all its records in the database is not reported as set back (step mode %s)",
    async (steps) => {
      mode.steps = steps;
      try {
        const name = fresh("lab");
        const { mail, book, pay } = effects();
        const fails = defineStep<null, string>({
          effect: "keyed",
          retries: { limit: 1, delay: 10 },
          run: () => Promise.reject(upstreamRefused("no")),
        });
        const { instanceId } = await runLab(
          async ({ step }) => {
            await step.read("look", async () => 1);
            await step.effect("fails", fails, null).catch(() => undefined);
            await Promise.all([step.effect("mail", mail, null), step.effect("book", book, null)]);
            await step.map(["a", "b"], { key: String }, (_, each) => each.effect("pay", pay, null));
            await hear(step, "nothing", `${name}/0`, 10);
            await step.sleep("nap", 10);
            await step.approve("ask", { question: "Well?" });
            await hear(step, "first", `${name}/1`, HOUR_MS);
            await step.commit("end", () => ({}));
          },
          { name },
        );
        const [question] = await until(
          () => rows<{ id: string }>("SELECT id FROM millrace_approvals WHERE instance_id = ?1", instanceId),
          ([one]) => one !== undefined,
        );
        expect(await findSetBack(probeEnv, { id: instanceId, workflow: "lab" })).toBeUndefined();
        await approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "yes");
        await openWaits(instanceId, 1);
        expect(await findSetBack(probeEnv, { id: instanceId, workflow: "lab" })).toBeUndefined();
        await deliver("probe-events", [say(`${name}/1`, "go")]);
        await platformReaches(instanceId, "complete");
        expect(await findSetBack(probeEnv, { id: instanceId, workflow: "lab" })).toBeUndefined();
      } finally {
        mode.steps = "platform";
      }
    },
  );

  it("W17 a step that a pause has held is not reported as set back", async () => {
    const name = fresh("lab");
    const { world, mail, pay } = effects();
    const state = { begun: false, go: false };
    const { instanceId } = await runLab(
      async ({ step }) => {
        await step.commit("note", () => ({}));
        await step.read("slow", () => {
          state.begun = true;
          return held(() => state.go);
        });
        await step.effect("pay", pay, null);
        await step.effect("mail", mail, null);
      },
      { name },
    );
    await until(async () => state.begun, Boolean);
    await instances.act(probeEnv, operator, "pause", instanceId, { reason: "wait" });
    state.go = true;
    await until(
      async () => (await instances.history(probeEnv, { id: instanceId, workflow: "lab" })).steps,
      (steps) => steps.some(({ name: step, state: is }) => step === "pay" && is === "complete"),
    );
    await instances.act(probeEnv, operator, "restart", instanceId, { reason: "again" });
    await until(
      async () => {
        await keeperRound();
        return statusOf(instanceId);
      },
      (status) => status === "complete" || status === "in_doubt",
    );
    expect([await rows("SELECT status, lost FROM millrace_instances WHERE id = ?1", instanceId), world]).toEqual([
      [{ status: "complete", lost: null }],
      [expect.stringContaining("pay "), "mail"],
    ]);
  });
});
