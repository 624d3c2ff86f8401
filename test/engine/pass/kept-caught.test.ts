import { env } from "cloudflare:workers";
import { defineStep } from "millrace";
import { describe, expect, it, vi } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { runLab } from "../lab.ts";
import { effect, ended } from "../operate/operating.ts";
import { down, noFunds, shop } from "./shop.ts";

describe("What it costs that a caught failure is on record before an effect", () => {
  /** How often a run writes in its midst what it has caught. */
  async function writesOf(code: (call: LabCall) => Promise<unknown>): Promise<number> {
    const batch = vi.spyOn(Object.getPrototypeOf(env.DB) as D1Database, "batch");
    const { instanceId } = await runLab(code);
    expect(await ended(instanceId)).toBe("complete");
    const asked = batch.mock.calls.flatMap(([statements]) => statements as unknown as { statement: string; params: unknown[] }[]);
    batch.mockRestore();
    return asked.filter(({ statement, params }) => /UPDATE instances SET caught/.test(statement) && params.includes(instanceId)).length;
  }

  const { act } = shop();
  const fails = ({ step }: LabCall, name: string) =>
    step
      .effect(
        name as never,
        effect("keyed", () => Promise.reject(noFunds())),
        null,
      )
      .catch(() => undefined);
  const does = ({ step }: LabCall, name: string) => step.effect(name as never, act(name), null);

  it.each<[string, number, (call: LabCall) => Promise<unknown>]>([
    ["nothing where nothing was caught", 0, async (call) => [await does(call, "a"), await does(call, "b")]],
    [
      "nothing before a commit, or an effect that takes its key first",
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
      "nothing where an outcome on record says it",
      0,
      async (call) => {
        await fails(call, "a");
        await call.step.commit("b", () => ({}));
        await does(call, "c");
      },
    ],
    [
      "one write for all effects behind one failure",
      1,
      async (call) => {
        await fails(call, "a");
        await does(call, "b");
        await does(call, "c");
        await Promise.all([does(call, "d"), does(call, "e")]);
      },
    ],
    [
      "one write for effects side by side behind several failures",
      1,
      async (call) => {
        await Promise.all([fails(call, "a"), fails(call, "b")]);
        await Promise.all([does(call, "c"), does(call, "d")]);
      },
    ],
    [
      "one write for each failure that nothing on record says",
      2,
      async (call) => {
        await fails(call, "a");
        await does(call, "b");
        await fails(call, "c");
        await does(call, "d");
      },
    ],
    [
      "one write for an effect that is tried again",
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
});
