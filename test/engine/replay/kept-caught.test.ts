import { env } from "cloudflare:workers";
import { defineStep } from "millrace";
import { describe, expect, it, vi } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { runLab } from "../lab.ts";
import { effect, ended, ONCE } from "../operate/operating.ts";
import { down, noFunds, shop } from "./shop.ts";

describe("The number of writes that record caught failures before a run's end", () => {
  /** Counts the writes that record caught failures of a run before its end. */
  async function writesOf(code: (call: LabCall) => Promise<unknown>, end = "complete"): Promise<number> {
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    const { instanceId } = await runLab(code);
    expect(await ended(instanceId)).toBe(end);
    const asked = batch.mock.calls.flatMap(([statements]) => statements as unknown as { statement: string; params: unknown[] }[]);
    batch.mockRestore();
    return asked.filter(
      ({ statement, params }) => /UPDATE millrace_instances SET caught/.test(statement) && String(params).includes(instanceId),
    ).length;
  }

  const { act } = shop();
  const fails = ({ step }: LabCall, name: string, error: () => Error = noFunds) =>
    step
      .effect(
        name as never,
        effect("keyed", () => Promise.reject(error())),
        null,
      )
      .catch(() => undefined);
  const rests = async ({ step }: LabCall, name: string) => {
    await step.read(`${name} look` as never, async () => 1);
    await step.sleep(`${name} rest` as never, 20);
    await step.approve(`${name} ask` as never, { question: "Go on?", timeout: 20 });
  };
  const does = ({ step }: LabCall, name: string) => step.effect(name as never, act(name), null);

  it.each<[string, number, (call: LabCall) => Promise<unknown>]>([
    ["an effect without a caught failure before it needs no write", 0, async (call) => [await does(call, "a"), await does(call, "b")]],
    [
      "a caught failure before a commit or before a claimed effect needs no separate write",
      0,
      async (call) => {
        await fails(call, "a");
        await call.step.effect(
          "b",
          effect("once", async () => 1),
          null,
        );
        await fails(call, "c");
        await call.step.commit("d", () => ({}));
      },
    ],
    [
      "a caught failure that a recorded outcome contains needs no write before later effects",
      0,
      async (call) => {
        await fails(call, "a");
        await call.step.commit("b", () => ({}));
        await does(call, "c");
      },
    ],
    [
      "several effects after one caught failure need one write",
      1,
      async (call) => {
        await fails(call, "a");
        await does(call, "b");
        await does(call, "c");
        await Promise.all([does(call, "d"), does(call, "e")]);
      },
    ],
    [
      "parallel effects after several caught failures need one write",
      1,
      async (call) => {
        await Promise.all([fails(call, "a"), fails(call, "b")]);
        await Promise.all([does(call, "c"), does(call, "d")]);
      },
    ],
    [
      "each caught failure that no record contains needs one write before the next effect",
      2,
      async (call) => {
        await fails(call, "a");
        await does(call, "b");
        await fails(call, "c");
        await does(call, "d");
      },
    ],
    ["a wait without a caught failure before it needs no write", 0, async (call) => [await does(call, "a"), await rests(call, "b")]],
    [
      "a wait after a caught step that has no effect or was refused needs no write",
      0,
      async (call) => {
        await fails(call, "a");
        await call.step.read("b", () => Promise.reject(down()), ONCE).catch(() => undefined);
        await rests(call, "c");
      },
    ],
    [
      "a wait after a caught failure that a recorded outcome contains needs no write",
      0,
      async (call) => {
        await fails(call, "a", down);
        await call.step.commit("b", () => ({}));
        await rests(call, "c");
      },
    ],
    [
      "several waits after a caught failure of an effect that may have happened need one write",
      1,
      async (call) => {
        await fails(call, "a", down);
        await rests(call, "b");
        await rests(call, "c");
      },
    ],
    [
      "waits and effects after a caught failure of an effect that may have happened need two writes",
      2,
      async (call) => {
        await fails(call, "a", down);
        await rests(call, "b");
        await does(call, "c");
        await rests(call, "d");
        await does(call, "e");
      },
    ],
    [
      "an effect with three attempts after a caught failure needs one write",
      1,
      async (call) => {
        let tries = 0;
        const second = defineStep({
          effect: "keyed",
          retries: { limit: 2, delay: 10 },
          run: async () => (++tries < 3 ? Promise.reject(down()) : 1),
        });
        await fails(call, "a");
        await call.step.effect("b", second, null);
      },
    ],
  ])("W25 W03: %s", async (_, writes, code) => {
    expect(await writesOf(code)).toBe(writes);
  });

  it("a failure that no code catches needs no write, also beside a branch that sleeps", async () => {
    const lost = effect("keyed", () => Promise.reject(down()));
    const code = ({ step }: LabCall) => Promise.all([step.sleep("night", "1 hour"), step.effect("a", lost, null)]);
    expect(await writesOf(code, "errored")).toBe(0);
  });
});
