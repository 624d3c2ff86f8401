import { defineStep, notRetryable } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { operator, probeEnv, rows } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { back, failed, ONCE, retry, undo } from "./operating.ts";
import { comes, kept } from "./scene.ts";
import { skip, statesOf, undoneInPart, van } from "./undo-failing.ts";

/** A lookup effect with a lost answer. Once its upstream is available, the lookup finds the booking if `booked` is true. */
function booking(world: string[], upstream: { away: boolean; booked: boolean }) {
  return defineStep({
    effect: "lookup",
    ...ONCE,
    timeout: 5000,
    run: async (): Promise<string> => {
      world.push("sent");
      if (upstream.away) throw new Error("No answer.");
      return "booking-2";
    },
    lookup: async () => {
      world.push("asked");
      if (upstream.away) throw new Error("The courier is unavailable.");
      return upstream.booked ? "booking-1" : undefined;
    },
    undo: back(async () => world.push("booking back")) as never,
  });
}

/** A run with a van and a booking that lost its answer. Its undo has failed at the lookup of the booking. */
async function unasked(world: string[], upstream: { away: boolean; booked: boolean }): Promise<string> {
  const { instanceId: id } = await runLab(async ({ step }) => {
    await step.effect("van", van(world), null);
    await step.effect("book", booking(world, upstream), null);
  });
  await failed(id);
  await undoneInPart(id);
  return id;
}

describe("W20 An undo that cannot determine the outcome of an effect", () => {
  it.each([true, false])(
    "an operator can skip an effect that an undo cannot look up; a later retry looks it up first (it had happened: %s)",
    async (booked) => {
      const world: string[] = [];
      const upstream = { away: true, booked };
      const id = await unasked(world, upstream);
      // The state is as if the database had been unavailable before the undo could claim the key.
      await rows("UPDATE millrace_inbox SET repeats = 0 WHERE instance_id = ?1 AND step = 'book'", id);
      expect(await errorOf(id)).toMatchObject({ step: "book" });
      const plan = await instances.plan(probeEnv, operator, "skip", id, { step: "book" });
      expect(plan.refused).toBeNull();
      expect(plan.consequence).toContain("if it happened, it remains until an operator undoes it");
      expect(plan.effects).toEqual([
        { step: "book", item: "", verdict: "skipped" },
        { step: "van", item: "", verdict: "undone" },
      ]);
      await skip(id, "book");
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world).toEqual(["van", "sent", "asked", "van back"]);
      expect(await statesOf(id)).toEqual(["van 1: superseded", "van 2: failed", "book 1: failed", "undo van 1: done"]);

      upstream.away = false;
      await retry(id);
      expect(await kept(id, "complete", "errored")).toBe("complete");
      expect(world.slice(4)).toEqual(booked ? ["van", "asked"] : ["van", "asked", "sent"]);
      await undo(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world.slice(booked ? 6 : 7)).toEqual(["booking back", "van back"]);
    },
  );

  it("an effect that an undo could not look up is in doubt in a later retry when a deployment has changed its class", async () => {
    const world: string[] = [];
    const upstream = { away: true, booked: true };
    const state = { isNatural: false };
    const put = defineStep({ effect: "natural", ...ONCE, run: async () => `${world.push("sent")}` });
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("van", van(world), null);
      await step.effect("book", state.isNatural ? put : booking(world, upstream), null);
    });
    await failed(id);
    await undoneInPart(id);
    await skip(id, "book");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    state.isNatural = true;
    upstream.away = false;
    await retry(id);
    expect(await kept(id, "in_doubt", "complete", "errored")).toBe("in_doubt");
    expect(world).toEqual(["van", "sent", "asked", "van back", "van"]);
  });

  it.each([
    { with: "without an output is repeated by a retry", output: undefined, sends: ["sent"] },
    { with: "with an output has that output in a retry", output: "by hand", sends: [] },
  ])("an effect that a cancel interrupted and an operator skipped in the undo $with", async ({ output, sends }) => {
    const world: string[] = [];
    const state = { away: true };
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("van", van(world), null);
      const pay = defineStep({
        effect: "keyed",
        run: async () => {
          world.push("sent");
          if (state.away) throw new Error("The bank is unavailable.");
          return "payment";
        },
        undo: back(async () => world.push("pay back")) as never,
        retries: { limit: 1, delay: 1500 },
      });
      await step.effect("pay", pay, null);
    });
    await comes(() => world.includes("sent"));
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("errored");
    expect(await errorOf(id)).toMatchObject({ step: "pay" });
    expect((await instances.plan(probeEnv, operator, "retry", id, {})).effects).toEqual([
      { step: "pay", item: "", verdict: "unknown" },
      { step: "van", item: "", verdict: "undone" },
    ]);
    const sent = world.length;
    await skip(id, "pay", { output });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world.slice(sent)).toEqual(["van back"]);
    state.away = false;
    await retry(id);
    expect(await kept(id, "complete", "errored")).toBe("complete");
    expect(world.slice(sent)).toEqual(["van back", "van", ...sends]);
  });

  it("an undo step with a once effect of unknown outcome cannot be skipped: an operator must resolve the effect", async () => {
    const world: string[] = [];
    const id = await unasked(world, { away: true, booked: false });
    await rows("UPDATE millrace_inbox SET class = 'once' WHERE instance_id = ?1 AND step = 'book'", id);
    expect((await instances.plan(probeEnv, operator, "skip", id, { step: "book" })).refused).toContain("The effect then becomes in_doubt");
    await expect(skip(id, "book")).rejects.toMatchObject({ code: "invalid_transition" });
    expect((await statesOf(id))[1]).toBe("book 1: claimed");
  });
});

it.each([false, true])("W25 a read that fails in an undo can be skipped with an output (cut off by a cancel: %s)", async (cut) => {
  const world: string[] = [];
  const state = { gone: false };
  const { instanceId: id } = await runLab(async ({ step }) => {
    const which = await step.read("look", async () => (state.gone ? Promise.reject(notRetryable("The list does not exist.")) : "van"));
    await step.effect("van", van(world, which), null);
  });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  state.gone = true;
  await undoneInPart(id);
  expect(await errorOf(id)).toMatchObject({ step: "look" });
  // The state is as if the read had been running when the run was cancelled.
  if (cut) await rows("UPDATE millrace_actions SET cut_off = '[\"look\"]' WHERE instance_id = ?1", id);
  else await expect(skip(id, "look")).rejects.toMatchObject({ code: "invalid_payload", detail: { issues: [{ path: "output" }] } });
  await skip(id, "look", { output: "van" });
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect(world).toEqual(["van", "van back"]);
});
