import { defineStep, notRetryable, retryAfter, type Steps, upstreamRefused } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, onTestFinished } from "vitest";
import { mode } from "../../probe/mode.ts";
import { operator, probeEnv } from "../harness.ts";
import { errorOf, platformReaches, runLab } from "../lab.ts";
import { back, ended, undo } from "./operating.ts";
import { comes, kept } from "./scene.ts";
import { skip, undoFailed, undoneInPart, van } from "./undo-failing.ts";

/** The upstream's answers to the requests of a payment, in order. */
type Answers = ("lost" | "401" | "429" | "400")[];
const SAID = {
  lost: () => new Error("No answer."),
  "401": () => notRetryable("The key has expired.", 401),
  "429": () => retryAfter(20, "Too many concurrent requests.", 429),
  "400": () => upstreamRefused("No such account.", 400),
};

/** A payment that gets these answers in order and then succeeds. A `lost` answer means that the payment may have happened. */
function payment(world: string[], answers: Answers, effect: "keyed" | "natural", limit = answers.length - 1) {
  return defineStep({
    effect,
    retries: { limit, delay: 10, backoff: "constant" },
    timeout: 5000,
    run: async () => {
      const answer = answers.shift();
      world.push(answer ?? "paid");
      if (answer !== undefined) throw SAID[answer]();
      return "payment";
    },
    undo: back(async () => world.push("pay back")) as never,
  });
}

async function run(steps: "inline" | "platform", code: (step: Steps) => Promise<unknown>): Promise<string> {
  mode.steps = steps;
  onTestFinished(() => {
    mode.steps = "platform";
  });
  return (await runLab(({ step }) => code(step))).instanceId;
}

const pay = (verdict: string) => ({ step: "pay", item: "", verdict });
const planned = async (id: string) => (await instances.plan(probeEnv, operator, "undo", id, {})).effects.find(({ step }) => step === "pay");

describe.each(["platform", "inline"] as const)("W19 step mode %s: an effect with a lost answer", (steps) => {
  it.each([
    ["keyed", "401", "ends its run"],
    ["natural", "429", "ends its run"],
    ["keyed", "400", "is caught"],
    ["natural", "401", "is caught"],
  ] as const)(
    "an undo repeats and undoes an effect with a lost answer and a refused next attempt (%s, %s), also where that %s",
    async (of, refusal, end) => {
      const world: string[] = [];
      const definition = payment(world, ["lost", refusal], of);
      const id = await run(steps, async (step) => {
        await step.effect("van", van(world), null);
        const paid = step.effect("pay", definition, null);
        if (end === "is caught") await paid.catch(() => "without");
        else await paid;
      });
      await ended(id);
      expect(world).toEqual(["van", "lost", refusal]);
      expect(await planned(id)).toEqual(pay("repeated"));
      await undo(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world.slice(3)).toEqual(["paid", "pay back", "van back"]);
    },
  );

  it("a cancel between two attempts undoes an effect with a lost answer and a refused next attempt", async () => {
    const world: string[] = [];
    const definition = { ...payment(world, ["lost", "400"], "keyed"), retries: { limit: 5, delay: 2000 } };
    const id = await run(steps, async (step) => {
      await step.effect("van", van(world), null);
      await step.effect("pay", definition, null);
    });
    await comes(() => world.includes("400"));
    await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world.slice(3)).toEqual(["paid", "pay back", "van back"]);
  });

  it("an undo repeats an effect with a lost answer only after the upstream's Retry-After", async () => {
    const world: string[] = [];
    const answers: Answers = ["lost", "lost"];
    const definition = payment(world, answers, "keyed", 1);
    const id = await run(steps, async (step) => {
      await step.effect("pay", definition, null).catch(() => "without");
      await step.effect("van", van(world), null);
    });
    await ended(id);
    expect(await planned(id)).toEqual(pay("repeated"));
    answers.push("429");
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world.slice(-4)).toEqual(["429", "paid", "pay back", "van back"]);
  });

  it("an undo fails when the upstream refuses to repeat an effect with a lost answer, and an operator can skip that effect", async () => {
    const world: string[] = [];
    const answers: Answers = ["lost"];
    const definition = payment(world, answers, "keyed");
    const id = await run(steps, async (step) => {
      await step.effect("van", van(world), null);
      await step.effect("pay", definition, null);
    });
    await ended(id);
    answers.push("401");
    await undoneInPart(id);
    expect(await errorOf(id)).toMatchObject({ step: "pay", code: "not_retryable", message: "The key has expired." });
    await skip(id, "pay");
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["van", "lost", "401", "van back"]);
  });

  it("an undo does not repeat an effect when the upstream refused every attempt", async () => {
    const world: string[] = [];
    const definition = payment(world, ["400", "429", "401"], "keyed");
    const id = await run(steps, async (step) => {
      await step.effect("van", van(world), null);
      await step.effect("pay", definition, null).catch(() => "without");
    });
    await ended(id);
    expect(await planned(id)).toEqual(pay("nothing"));
    await undo(id);
    expect(await kept(id, "terminated", "errored")).toBe("terminated");
    expect(world).toEqual(["van", "400", "429", "401", "van back"]);
  });

  it.each([
    ["401", "not_retryable"],
    ["429", "retry_after"],
  ] as const)(
    "an undo fails when the lookup of an effect is refused with %s, names the effect in its error, and an operator can skip it",
    async (answer, code) => {
      const world: string[] = [];
      const booking = defineStep({
        effect: "lookup",
        retries: { limit: 0, delay: 10 },
        timeout: 5000,
        run: async (): Promise<string> => {
          throw SAID.lost();
        },
        lookup: async () => {
          throw SAID[answer]();
        },
        undo: back(async () => world.push("booking back")) as never,
      });
      const id = await run(steps, async (step) => {
        await step.effect("van", van(world), null);
        await step.effect("book", booking, null);
      });
      await ended(id);
      const { action_id: actionId } = await undo(id);
      await undoFailed(id, actionId);
      expect(await errorOf(id)).toMatchObject({ step: "book", code });
      await skip(id, "book");
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world).toEqual(["van", "van back"]);
    },
  );
});

describe.each(["platform", "inline"] as const)(
  "W19 step mode %s: an effect that lost its answer in one run and was not reached by the next run",
  (steps) => {
    /** A failed run: its read can be made to fail, and the payment after that read has lost its answers. */
    async function lostOnce(world: string[]) {
      const state = { away: false };
      const definition = payment(world, ["lost", "lost"], "keyed");
      const id = await run(steps, async (step) => {
        await step.effect("van", van(world), null);
        await step.read("look", async () => (state.away ? Promise.reject(notRetryable("The list is unavailable.")) : 1));
        await step.effect("pay", definition, null);
      });
      await ended(id);
      expect(world).toEqual(["van", "lost", "lost"]);
      await platformReaches(id, "errored");
      return { id, state };
    }

    it.each(["a restart", "a retry"])(
      "an undo repeats and undoes an effect with a lost answer after %s that did not reach it",
      async (act) => {
        const world: string[] = [];
        const { id, state } = await lostOnce(world);
        state.away = true;
        if (act === "a restart") await instances.act(probeEnv, operator, "restart", id, { reason: "once more" });
        else await instances.act(probeEnv, operator, "retry", id, { reason: "once more", from: "look" });
        await comes(async () => (await errorOf(id))?.step === "look");
        await platformReaches(id, "errored");
        expect(await planned(id)).toEqual(pay("repeated"));
        state.away = false;
        await undo(id);
        expect(await kept(id, "terminated", "errored")).toBe("terminated");
        expect(world.slice(3)).toEqual(["paid", "pay back", "van back"]);
      },
    );

    it("an undo fails while a read before the effect with a lost answer fails, and continues once the read succeeds", async () => {
      const world: string[] = [];
      const { id, state } = await lostOnce(world);
      state.away = true;
      await instances.act(probeEnv, operator, "restart", id, { reason: "once more" });
      await comes(async () => (await errorOf(id))?.step === "look");
      await platformReaches(id, "errored");
      await undoneInPart(id);
      expect(await errorOf(id)).toMatchObject({ step: "look" });
      expect(world).toEqual(["van", "lost", "lost"]);
      state.away = false;
      await instances.act(probeEnv, operator, "retry", id, { reason: "it is back" });
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world.slice(3)).toEqual(["paid", "pay back", "van back"]);
    });

    it("an undo repeats and undoes an effect with a lost answer that the next run reached and the upstream then refused", async () => {
      const world: string[] = [];
      const answers: Answers = ["lost", "401"];
      const definition = payment(world, answers, "natural", 0);
      const id = await run(steps, async (step) => {
        await step.effect("van", van(world), null);
        await step.effect("pay", definition, null);
      });
      await ended(id);
      await platformReaches(id, "errored");
      await instances.act(probeEnv, operator, "retry", id, { reason: "once more" });
      await comes(async () => (await errorOf(id))?.code === "not_retryable");
      await platformReaches(id, "errored");
      expect(await planned(id)).toEqual(pay("repeated"));
      await undo(id);
      expect(await kept(id, "terminated", "errored")).toBe("terminated");
      expect(world.slice(-3)).toEqual(["paid", "pay back", "van back"]);
    });
  },
);
