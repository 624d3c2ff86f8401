import type { Steps } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { operator, probeEnv } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, effect, failed, retry, undo } from "./operating.ts";
import { kept } from "./scene.ts";
import { skip, undoneInPart } from "./undo-failing.ts";

interface Code {
  a: boolean;
  b: boolean;
}

/** A run of three steps. The effects append their names to `world`, their undo handlers append `undo …`. */
async function runOf(code: Code, world: string[], first: (step: Steps) => Promise<unknown>): Promise<string> {
  const { instanceId } = await runLab(async ({ step }) => {
    await first(step);
    await step.effect("b", keyed("b", world, code.b), null);
    await step.commit("c", () => ({}));
  });
  return instanceId;
}

function keyed(what: string, world: string[], takesBack: boolean) {
  const more = takesBack ? { undo: back(async () => world.push(`undo ${what}`)) } : {};
  return effect("keyed", async () => world.push(what), more);
}

const planned = async (id: string) =>
  Object.fromEntries((await instances.plan(probeEnv, operator, "undo", id, {})).effects.map((one) => [one.step, one.verdict]));

describe("An undo after a deployment that has removed an undo handler", () => {
  const forms = [
    ["an effect", (code: Code, world: string[]) => (step: Steps) => step.effect("a", keyed("a", world, code.a), null)],
    [
      "a commit",
      (code: Code, world: string[]) => (step: Steps) => {
        const write = (what: string) => () => {
          world.push(what);
          return {};
        };
        return step.commit("a", write("a"), code.a ? { undo: write("undo a") } : {});
      },
    ],
  ] as const;

  it.each(forms)(
    "an undo undoes later effects, then stops at %s that has no handler any more; a retry continues once the handler is deployed again",
    async (_, first) => {
      const [code, world]: [Code, string[]] = [{ a: true, b: true }, []];
      const id = await runOf(code, world, first(code, world));
      expect(await kept(id, "complete", "errored")).toBe("complete");
      code.a = false;
      expect(await planned(id)).toEqual({ c: "stays", b: "undone", a: "undone" });
      await undoneInPart(id);
      expect(await errorOf(id)).toMatchObject({
        step: "undo a",
        code: "nondeterministic_steps",
        message: expect.stringContaining('"a" had an undo handler when it ran, and the deployed code has none'),
      });
      expect(world).toEqual(["a", "b", "undo b"]);
      expect((await instances.plan(probeEnv, operator, "retry", id, {})).effects).toContainEqual({
        step: "a",
        item: "",
        verdict: "undone",
      });
      code.a = true;
      await retry(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world).toEqual(["a", "b", "undo b", "undo a"]);
    },
  );

  it("a skip of the last effect, which has no handler any more, continues the undo with the rest, and runs no handler twice", async () => {
    const [code, world]: [Code, string[]] = [{ a: true, b: true }, []];
    const id = await runOf(code, world, (step) => step.effect("a", keyed("a", world, code.a), null));
    expect(await kept(id, "complete", "errored")).toBe("complete");
    code.b = false;
    await undoneInPart(id);
    expect(world).toEqual(["a", "b"]);
    expect(await instances.plan(probeEnv, operator, "skip", id, { step: "undo b" })).toMatchObject({
      refused: null,
      consequence: expect.stringContaining('an operator has undone "b"'),
    });
    await skip(id, "undo b");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["a", "b", "undo a"]);
  });

  it("an undo stops at an unrecorded effect with a removed handler; a skip leaves that effect as it is", async () => {
    const [code, world]: [Code, string[]] = [{ a: true, b: true }, []];
    let lost = true;
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("b", keyed("b", world, code.b), null);
      const pay = async () => {
        world.push("a");
        if (lost) throw new Error("The answer was lost.");
      };
      await step.effect("a", effect("keyed", pay, code.a ? { undo: back(async () => world.push("undo a")) } : {}), null);
    });
    await failed(id);
    expect(await planned(id)).toEqual({ a: "repeated", b: "undone" });
    code.a = false;
    await undoneInPart(id);
    expect(await errorOf(id)).toMatchObject({
      step: "a",
      code: "nondeterministic_steps",
      message: expect.stringContaining("may have happened"),
    });
    expect(world).toEqual(["b", "a"]);
    lost = false;
    await skip(id, "a");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["b", "a", "undo b"]);
  });
});

it("an undo stops at an unrecorded effect that the code no longer calls; a skip continues the undo without it", async () => {
  const [code, world]: [{ second: "b" | "c" }, string[]] = [{ second: "b" }, []];
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("a", keyed("a", world, true), null);
    const pay = async () => {
      if (code.second === "b") throw new Error("The answer was lost.");
    };
    await step.effect(code.second, effect("keyed", pay, { undo: back(async () => world.push("undo second")) }), null);
  });
  await failed(id);
  code.second = "c";
  await retry(id);
  expect(await kept(id, "complete", "errored")).toBe("complete");
  await undoneInPart(id);
  expect(await errorOf(id)).toMatchObject({
    step: "b",
    code: "nondeterministic_steps",
    message: expect.stringContaining('Or skip "b": the undo then ignores it.'),
  });
  expect(world).toEqual(["a"]);
  await skip(id, "b");
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect(world).toEqual(["a", "undo second", "undo a"]);
});

describe("An undo after a deployment that has added an undo handler", () => {
  it("an undo of effects without a handler at their time is refused, because a handler that was deployed later does not apply to them", async () => {
    const [code, world]: [Code, string[]] = [{ a: false, b: false }, []];
    const id = await runOf(code, world, (step) => step.effect("a", keyed("a", world, code.a), null));
    expect(await kept(id, "complete", "errored")).toBe("complete");
    Object.assign(code, { a: true, b: true });
    await expect(instances.act(probeEnv, operator, "undo", id, { reason: "called off" })).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("A handler that was deployed later applies to later effects only"),
    });
  });

  it("an undo leaves an effect without a handler at its time, as its dry run says, and undoes the other effects", async () => {
    const [code, world]: [Code, string[]] = [{ a: false, b: true }, []];
    const id = await runOf(code, world, (step) => step.effect("a", keyed("a", world, code.a), null));
    expect(await kept(id, "complete", "errored")).toBe("complete");
    code.a = true;
    expect(await planned(id)).toEqual({ c: "stays", b: "undone", a: "stays" });
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["a", "b", "undo b"]);
  });
});
