import { upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { operator, probeEnv, reaches, rows } from "../harness.ts";
import { outputOf, restartLab, runLab } from "../lab.ts";
import { effect, ended, ONCE } from "../operate/operating.ts";

it.each(["inline", "platform"] as const)(
  "W25 the code receives the same class and message of a caught error in the first replay and in later ones (step mode %s)",
  async (steps) => {
    const heard: unknown[] = [];
    const { instanceId } = await runLab(async ({ step }) => {
      await step.commit("begun", () => ({}));
      const long = () => Promise.reject(new Error(`${"x".repeat(1500)} at its end`));
      const wrong = () => Promise.reject(new TypeError("The value is not a number."));
      const caught: unknown[] = [];
      for (const [name, run] of [
        ["long", long],
        ["wrong", wrong],
      ] as const) {
        await step.effect(name, effect("natural", run), null, { steps }).catch((error) => caught.push(error));
      }
      heard.push(
        caught.map((error) => [error instanceof TypeError, (error as Error).message.length, (error as Error).message.endsWith("end")]),
      );
      await step.commit("behind", () => ({}));
      return heard.length;
    });
    expect(await outputOf(instanceId)).toBe(1);
    expect(await restartLab(instanceId)).toBe("complete");
    expect(heard).toHaveLength(2);
    expect(heard[1]).toEqual(heard[0]);
    expect(heard[0]).toEqual([
      [false, 1000, false],
      [true, expect.any(Number), false],
    ]);
  },
);

it("W25 300 caught failures are recorded in one write, and only one of them lists the earlier outcomes", async () => {
  const names = Array.from({ length: 300 }, (_, nth) => `read ${nth}`);
  const { instanceId } = await runLab(async ({ step }) => {
    const reads = names.map((name) =>
      step.read(name as never, () => Promise.reject(new Error("It is away.")), ONCE).catch(() => undefined),
    );
    await Promise.all(reads);
    await step.effect(
      "instead",
      effect("keyed", async () => 1),
      null,
    );
  });
  expect(await ended(instanceId)).toBe("complete");
  const [row] = await rows<{ caught: string }>("SELECT caught FROM millrace_instances WHERE id = ?1", instanceId);
  const left = Object.values(JSON.parse(row?.caught ?? "{}")) as { after?: string }[];
  expect([left.length, left.filter(({ after }) => after !== undefined).length]).toEqual([300, 1]);
});

it("a retry can start at a caught step with a failure that is recorded only in the instance's row", async () => {
  let isMended = false;
  const { instanceId } = await runLab(async ({ step }) => {
    await step
      .effect(
        "card",
        effect("natural", () => Promise.reject(new Error("No funds."))),
        null,
      )
      .catch(() => undefined);
    await step.effect(
      "mail",
      effect("natural", () => (isMended ? Promise.resolve(1) : Promise.reject(new Error("It is away.")))),
      null,
    );
  });
  expect(await ended(instanceId)).toBe("errored");
  await instances.act(probeEnv, operator, "restart", instanceId, { reason: "Once more." });
  expect(await ended(instanceId)).toBe("errored");
  isMended = true;
  expect(await instances.plan(probeEnv, operator, "retry", instanceId, { from: "card" })).toMatchObject({ from: "card" });
});

it("an effect that an upstream refused with a message of 200,000 characters counts as not happened, and is not in doubt", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.effect(
      "pay",
      effect("once", () => Promise.reject(upstreamRefused("x".repeat(200_000)))),
      null,
    );
  });
  expect(await reaches(instanceId, "errored", "in_doubt", "complete")).toBe("errored");
  expect(await instances.get(probeEnv, operator, instanceId)).toMatchObject({ error: { step: "pay", code: "upstream_refused" } });
});
