import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { parked } from "../../probe/turns.ts";
import { until } from "../../until.ts";
import { keeperRound, operator, probeEnv } from "../harness.ts";
import { TurnKey } from "./turning.ts";

const status = async (id: string) => (await instances.get(probeEnv, operator, id)).status as string;

it("a cancelled command that waits in its lane never begins, and the next command of its key starts", async () => {
  const key = new TurnKey(parked);
  const letGo = key.gate("a");
  await key.askAll("a", "b", "c");
  await key.seenBy("a begins");
  const waiting = key.id("b");
  await instances.act(probeEnv, operator, "cancel", waiting, { reason: "called off" });
  const ended = await until(
    async () => {
      await keeperRound();
      return status(waiting);
    },
    (one) => one === "terminated",
  );
  expect(ended).toBe("terminated");
  letGo();
  expect(await key.seenBy("c ends")).toEqual(["a begins", "a ends", "c begins", "c ends"]);
});

it("a command that waits in its lane cannot be paused; a running command can be paused, and still blocks its lane", async () => {
  const key = new TurnKey(parked);
  const letGo = key.gate("a");
  await key.askAll("a", "b");
  await key.seenBy("a begins");
  const [running, waiting] = [key.id("a"), key.id("b")];
  await expect(instances.act(probeEnv, operator, "pause", waiting, { reason: "later" })).rejects.toMatchObject({
    code: "invalid_transition",
    message: expect.stringContaining("pause the lane"),
  });
  expect((await instances.plan(probeEnv, operator, "pause", waiting, {})).refused).toContain("pause the lane");
  const restart = { why: expect.stringContaining("has not started") };
  expect((await instances.plan(probeEnv, operator, "restart", waiting, {})).refused).toEqual(restart.why);
  await expect(instances.act(probeEnv, operator, "restart", waiting, { reason: "does it hang?" })).rejects.toMatchObject({
    code: "invalid_transition",
    message: restart.why,
  });
  await instances.act(probeEnv, operator, "pause", running, { reason: "later" });
  letGo();
  await keeperRound();
  expect(await key.seen()).not.toContain("b begins");
  await instances.act(probeEnv, operator, "resume", running, { reason: "on again" });
  await until(
    async () => {
      await keeperRound();
      return key.seen();
    },
    (seen) => seen.includes("b ends"),
  );
  expect(await key.seen()).toEqual(["a begins", "a ends", "b begins", "b ends"]);
});
