import type { Steps } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { mode } from "../../probe/mode.ts";
import { fresh, operator, probeEnv, rows } from "../harness.ts";
import { held, platformReaches, runLab } from "../lab.ts";
import { back, effect, stateOf, undo } from "./operating.ts";
import { comes, kept } from "./scene.ts";
import { beginUnwritten, till } from "./till.ts";

const of = (step: string, verdict: string) => ({ step, item: "", verdict });
const cancel = (id: string, more: { undo?: boolean } = {}) =>
  instances.act(probeEnv, operator, "cancel", id, { reason: "called off", ...more });

/** Steps that wait long, after the code has caught a failure of an effect that may have happened and has no record. */
const rests = {
  sleep: (step: Steps) => step.sleep("night", "1 hour"),
  wait: (step: Steps) => step.waitFor("truck", ProbeSignal, { subject: fresh("rest") }),
  question: (step: Steps) => step.approve("ask", { question: "Without?" }),
  "failing read": (step: Steps) =>
    step.read("quote", () => Promise.reject(new Error("No price.")), { retries: { limit: 3, delay: "1 hour" } }),

  "failing commit": (step: Steps) =>
    step.commit("row", () => Promise.reject(new Error("No row.")), { retries: { limit: 3, delay: "1 hour" } }),
};

type Rest = keyof typeof rests;

/** Waits until the row of the instance contains the caught failure. */
const hasCome = async (id: string) => {
  const [row] = await rows<{ caught: string | null }>("SELECT caught FROM millrace_instances WHERE id = ?1", id);
  return row?.caught !== null && row?.caught !== undefined;
};

const ways = (["platform", "inline"] as const).flatMap((steps) =>
  (Object.keys(rests) as Rest[]).map((rest, nth) => [rest, (["keyed", "natural"] as const)[nth % 2] ?? "keyed", steps] as const),
);

it.each(ways)(
  "a cancel during a %s undoes an unrecorded %s effect that may have happened, and whose failure the code caught (step mode %s)",
  async (rest, of_, steps) => {
    const { id, state } = await beginUnwritten(steps, of_, rests[rest]);
    await comes(() => hasCome(id));
    const payIn = async (plan: Promise<{ effects: readonly { step: string }[] }>) =>
      (await plan).effects.filter(({ step }) => step === "pay");
    expect(await payIn(instances.plan(probeEnv, operator, "cancel", id, {}))).toEqual([of("pay", "repeated")]);
    expect(await payIn(instances.plan(probeEnv, operator, "cancel", id, { undo: false }))).toEqual([of("pay", "unknown")]);
    expect(await payIn(instances.plan(probeEnv, operator, "pause", id, {}))).toEqual([of("pay", "caught")]);
    state.mended = true;
    await cancel(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(state).toEqual({ mended: true, stands: false, asked: 2 });
  },
);

it.each(["platform", "inline"] as const)(
  "an undo after a cancel without undo repeats and undoes an unrecorded effect with a caught failure, as its dry run says (step mode %s)",
  async (steps) => {
    const { id, state } = await beginUnwritten(steps, "keyed", rests.sleep);
    await comes(() => hasCome(id));
    await cancel(id, { undo: false });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    await platformReaches(id, "terminated", "errored");
    expect(await instances.plan(probeEnv, operator, "undo", id, {})).toMatchObject({ refused: null, effects: [of("pay", "repeated")] });
    state.mended = true;
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(state).toEqual({ mended: true, stands: false, asked: 2 });
  },
);

it.each(["platform", "inline"] as const)(
  "a cancel reports that an effect with a caught failure and without an undo handler may remain (step mode %s)",
  async (steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const charge = effect("keyed", () => Promise.reject(new Error("The till answered 500.")));
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("charge", charge, {}).catch(() => "without");
      await step.sleep("night", "1 hour");
    });
    await comes(() => hasCome(id));
    expect((await instances.plan(probeEnv, operator, "cancel", id, {})).effects).toEqual([of("charge", "unknown")]);
    await cancel(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect((await instances.plan(probeEnv, operator, "undo", id, {})).effects).toEqual([of("charge", "unknown")]);
  },
);

it("a restart throws a caught failure to the code again, as its dry run says, and repeats no effect", async () => {
  const asked: string[] = [];
  let isLost = true;
  const charge = effect("keyed", async () => {
    asked.push("charge");
    if (isLost) throw new Error("The till answered 500.");
    return "paid";
  });
  const { instanceId: id } = await runLab(async ({ step }) => {
    const paid = await step.effect("charge", charge, {}).catch(() => "owed");
    await step.sleep("rest", isLost ? "1 hour" : 10);
    await step.effect(
      "tell",
      effect("keyed", async () => asked.push(`tell ${paid}`)),
      {},
    );
    return paid;
  });
  await comes(() => hasCome(id));
  expect((await instances.plan(probeEnv, operator, "restart", id, {})).effects).toEqual([of("charge", "caught")]);
  isLost = false;
  await instances.act(probeEnv, operator, "restart", id, { reason: "it hangs" });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(asked).toEqual(["charge", "tell owed"]);
});

it.each(["platform", "inline"] as const)(
  "a cancel undoes an effect with a caught failure while another branch sleeps (step mode %s)",
  async (steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const { state, pay } = till("keyed");
    const { instanceId: id } = await runLab(({ step }) =>
      Promise.all([step.sleep("night", "1 hour"), step.effect("pay", pay, {}).catch(() => "owed")]),
    );
    await comes(() => hasCome(id));
    state.mended = true;
    await cancel(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(state).toEqual({ mended: true, stands: false, asked: 2 });
  },
);

it.each(["platform", "inline"] as const)(
  "a cancel undoes an effect with a caught failure while a pause holds the next step (step mode %s)",
  async (steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const world: string[] = [];
    const is = { lost: false };
    const pay = effect(
      "keyed",
      async () => {
        if (!world.includes("paid")) world.push("paid");
        if (!is.lost) await held(() => is.lost).then(() => Promise.reject(new Error("The till answered 500.")));
      },
      { undo: back(async () => world.push("paid back")) },
    );
    const { instanceId: id } = await runLab(async ({ step }) => {
      await step.effect("pay", pay, {}).catch(() => "owed");
      await step.commit("row", () => ({}));
    });
    await comes(() => world.includes("paid"));
    await instances.act(probeEnv, operator, "pause", id, { reason: "let me look" });
    // A replay caches the status of its row for 0.7 s.
    await scheduler.wait(800);
    is.lost = true;
    await comes(() => hasCome(id));
    expect(await stateOf(id, "row")).toBeUndefined();
    await cancel(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["paid", "paid back"]);
  },
);
