import { env } from "cloudflare:workers";
import { defineStep } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished, vi } from "vitest";
import { dieAt, operator, probeEnv, reaches } from "../harness.ts";
import { held, runLab } from "../lab.ts";
import { effect, ended, stateOf } from "../operate/operating.ts";
import { shop } from "./shop.ts";

type Batched = { statement: string; params: unknown[] };

/** Delays the first (or nth) batch about a run that contains such a statement, until the given condition holds. */
function delay(statement: RegExp, { of, nth = 1 }: { of: () => string; nth?: number }, until: () => Promise<unknown>): void {
  const prototype = Object.getPrototypeOf(env.DB) as D1Database;
  const { batch } = prototype;
  let met = 0;
  const spy = vi.spyOn(prototype, "batch").mockImplementation(async function (this: D1Database, statements) {
    const isMeant = (one: Batched) => statement.test(one.statement) && JSON.stringify(one.params).includes(of());
    if ((statements as unknown as Batched[]).some(isMeant) && ++met === nth) await until();
    return batch.call(this, statements) as never;
  });
  onTestFinished(() => spy.mockRestore());
}

const pause = (id: string) => instances.act(probeEnv, operator, "pause", id, { reason: "Let me look." });
const resume = (id: string) => instances.act(probeEnv, operator, "resume", id, { reason: "Go on." });

it("W25 an effect after a caught failure does not begin when an operator has paused the run in the meantime", async () => {
  const { card, act, asked } = shop();
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    await step.effect("card", card, null).catch(() => pause(id));
    await step.effect("instead", act("instead"), null);
  });
  expect(await reaches(instanceId, "paused", "complete")).toBe("paused");
  // The record of the caught failure has detected the pause.
  await scheduler.wait(300);
  expect(asked).toEqual(["card"]);
  await resume(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(asked).toEqual(["card", "instead"]);
});

it("W25 the record of a caught failure survives a restart that an operator requests at that moment", async () => {
  const { card, asked } = shop();
  const is = { caught: false, promised: false, over: false };
  const begun = () => asked.includes("instead");
  const instead = effect("keyed", async () => {
    asked.push("instead");
    await held(() => is.over);
  });
  const { instanceId } = await runLab(async ({ step }) => {
    await step.effect("card", card, null).catch(() => {
      is.caught = true;
      return held(() => is.promised);
    });
    await step.effect("instead", instead, null);
  });
  delay(/SET status = 'paused', run/, { of: () => instanceId }, () => {
    is.promised = true;
    return held(begun);
  });
  await held(() => is.caught);
  const restarted = instances.act(probeEnv, operator, "restart", instanceId, { reason: "It hangs." });
  expect(await reaches(instanceId, "paused")).toBe("paused");
  const { died } = dieAt("W03 effect done, not recorded", instanceId);
  is.over = true;
  await restarted;
  expect(await ended(instanceId)).toBe("complete");
  expect(died()).toBe(true);
  // The upstream recognizes the second request for `instead` by its key. The card, which would succeed now, gets no second request.
  expect(asked).toEqual(["card", "instead", "instead"]);
});

it("W23 an effect does not begin under a key that was claimed while an operator paused its run", async () => {
  const asked: string[] = [];
  let own = "";
  delay(/INSERT INTO millrace_inbox/, { of: () => own }, () => pause(own));
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    own = id;
    await step.effect(
      "pay",
      effect("once", async () => asked.push("pay")),
      null,
    );
  });
  await vi.waitUntil(async () => (await stateOf(instanceId, "pay")) === "failed", { timeout: 30_000 });
  expect(asked).toEqual([]);
  await resume(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(asked).toEqual(["pay"]);
});

it("W23 a key that may have been used remains claimed while its run is paused, and its upstream is queried first", async () => {
  const asked: string[] = [];
  let own = "";
  delay(/INSERT INTO millrace_inbox/, { of: () => own, nth: 2 }, () => pause(own));
  const send = defineStep({
    effect: "lookup",
    retries: { limit: 3, delay: 10 },
    lookup: async () => (asked.length > 0 ? "sent" : undefined),
    run: async () => {
      asked.push("send");
      throw new Error("The answer was lost.");
    },
  });
  const { instanceId } = await runLab(async ({ step, instanceId: id }) => {
    own = id;
    return step.effect("send", send, null);
  });
  expect(await reaches(instanceId, "paused", "complete")).toBe("paused");
  await scheduler.wait(300);
  expect(await stateOf(instanceId, "send")).toBe("claimed");
  await resume(instanceId);
  expect(await ended(instanceId)).toBe("complete");
  expect(asked).toEqual(["send"]);
});
