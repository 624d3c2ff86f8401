import { defineStep } from "millrace";
import { afterEach, describe, expect, it } from "vitest";
import { walkRecord } from "../../../packages/millrace/src/check/walk.ts";
import { recordOf } from "../../../packages/millrace/src/inspect/record.ts";
import { REVEALED } from "../../../packages/millrace/src/inspect/redaction.ts";
import { type LabCall, lab, labs } from "../../probe/lab.ts";
import { mode } from "../../probe/mode.ts";
import { resetEngines, resetPrefixes } from "../../probe/strikes.ts";
import { app } from "../../probe/worker.ts";
import { deliver, fresh, keeperRound, operator, probeEnv, reaches, until } from "../harness.ts";
import { errorOf, platformReaches, runLab } from "../lab.ts";
import { effect, resolve, retry, stateOf } from "../operate/operating.ts";
import { hear, say } from "../signals/waiting.ts";
import { afterRounds, WORDS } from "./struck.ts";

type Code = (call: LabCall) => Promise<unknown>;

const SOON = { patienceMs: 20_000 };

afterEach(() => {
  mode.steps = "platform";
  resetPrefixes.clear();
});

const newName = () => {
  const name = `${fresh("changed")}/`;
  resetPrefixes.add(name);
  return name;
};

/** Replaces the code of a run and ends its engine, as a deployment does. The next round of the keeper starts a replay with the new code. */
function deploy(name: string, code: Code): void {
  labs.set(name, code);
  resetEngines(name, WORDS["a deployment"] as () => Error, () => "lives");
}

describe.each(["platform", "inline"] as const)("a deployment in the middle of a run with %s steps", (steps) => {
  it.each(["effect", "commit"] as const)(
    "a read that becomes another step (%s) of the same name ends the run with a reason; a new name executes it once",
    async (kind) => {
      mode.steps = steps;
      const [name, world] = [newName(), [] as string[]];
      const { instanceId: id } = await runLab(
        async ({ step }) => {
          await step.read("price", async () => 7);
          await hear(step, "go", name);
        },
        { name },
      );
      await reaches(id, "waiting");
      const charging =
        (called: string): Code =>
        async ({ step }) => {
          if (kind === "effect")
            await step.effect(
              called as "charge",
              effect("keyed", async () => world.push("charged")),
              null,
              { steps },
            );
          else await step.commit(called as "charge", () => ({ output: world.push("charged") }));
          await hear(step, "go", name);
        };
      const walked = await walkRecord({ ...lab, run: charging("price") }, app, await recordOf(probeEnv, operator, id, REVEALED));
      expect(walked.findings).toContainEqual(expect.objectContaining({ code: "nondeterministic_steps", step: "price", breaks: true }));
      deploy(name, charging("price"));
      expect(await afterRounds([id], SOON)).toEqual(["errored"]);
      expect(await errorOf(id)).toMatchObject({ code: "nondeterministic_steps", step: "price" });
      expect(world).toEqual([]);
      labs.set(name, charging("charge"));
      await platformReaches(id, "errored");
      await retry(id);
      await deliver("probe-events", [say(name, "go")]);
      expect(await afterRounds([id], SOON)).toEqual(["complete"]);
      expect(world).toEqual(["charged"]);
    },
  );

  it.each(["in_doubt", "claimed"] as const)(
    "code without a step whose effect is %s does not complete the run; code with the step continues it, and sends nothing again",
    async (state) => {
      mode.steps = steps;
      const [name, world] = [newName(), [] as string[]];
      const send = defineStep({
        effect: "once",
        retries: { limit: 0, delay: 10 },
        timeout: 4000,
        async run() {
          world.push("sent");
          if (state === "in_doubt") throw new Error("The answer was lost.");
          await new Promise(() => undefined);
        },
      });
      const old: Code = async ({ step }) => {
        await step.commit("begin", () => ({}));
        await step.effect("send", send, undefined);
        await step.commit("end", () => ({ output: world.push("ended") }));
      };
      const { instanceId: id } = await runLab(old, { name });
      await until(
        async () => world.length > 0 && (await stateOf(id, "send")),
        (found) => found === state,
      );
      deploy(name, async ({ step }) => step.commit("begin", () => ({})));
      expect(await afterRounds([id], SOON)).toEqual(["errored"]);
      expect(await errorOf(id)).toMatchObject({
        code: "nondeterministic_steps",
        message: '"send" may have happened, and the code ended without it. Deploy code with it, or resolve it, then retry.',
      });
      labs.set(name, old);
      await platformReaches(id, "errored");
      // The lease of the interrupted attempt ends.
      await probeEnv.DB.prepare("UPDATE millrace_inbox SET lease_until = 1 WHERE instance_id = ?1").bind(id).run();
      await retry(id);
      await until(
        () => keeperRound().then(() => stateOf(id, "send")),
        (found) => found === "in_doubt",
        20_000,
      );
      await reaches(id, "in_doubt");
      await resolve(id, "send", { verb: "confirm", output: null });
      expect(await afterRounds([id], SOON)).toEqual(["complete"]);
      expect(world).toEqual(["sent", "ended"]);
    },
  );

  it("code without a step whose unknown outcome an operator has resolved completes the run", async () => {
    mode.steps = steps;
    const [name, sent] = [newName(), [] as string[]];
    const send = effect("once", async () => {
      sent.push("sent");
      throw new Error("The answer was lost.");
    });
    const { instanceId: id } = await runLab(async ({ step }) => step.effect("send", send, null), { name });
    await reaches(id, "in_doubt");
    deploy(name, async () => undefined);
    expect(await afterRounds([id], SOON)).toEqual(["errored"]);
    await platformReaches(id, "errored");
    await resolve(id, "send", { verb: "confirm", output: null });
    await retry(id);
    expect(await afterRounds([id], SOON)).toEqual(["complete"]);
    expect(sent).toEqual(["sent"]);
  });
});
