import { sql, upstreamRefused } from "millrace";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { ProbeSignal } from "../../probe/messages.ts";
import { mode } from "../../probe/mode.ts";
import { type Strike, strikes, struck } from "../../probe/strikes.ts";
import { effects } from "../../probe/workflows.ts";
import { behave, deliver, fresh, happened, rows, until } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { say } from "../signals/waiting.ts";
import { afterRounds, strike, timesErrored, unwatchErrored, WORDS, watchErrored } from "./struck.ts";

beforeAll(watchErrored);
afterAll(unwatchErrored);
afterAll(() => {
  mode.steps = "platform";
});

const SOON = { retries: { limit: 3, delay: 10, backoff: "constant" } } as const;

/** Workflow code that compensates every failure. The first attempts fail, so that both step modes have platform steps. */
function charge(name: string) {
  const row = (what: string) => sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, ${what}, ${name})`;
  let tries = 0;
  return async ({ step }: LabCall): Promise<unknown> => {
    const refund = (what: string) => step.commit(`refund ${what}` as "refund", () => ({ statements: [row("refund")] }));
    const charged = await step.effect("charge", { ...effects.keyed, ...SOON }, { subject: `${name}/charge` }).catch(() => refund("charge"));
    const looked = await step.read("look", async () => "seen", SOON).catch(() => refund("look"));
    await step.sleep("rest", 20).catch(() => refund("rest"));
    const heard = await step
      .waitFor("answer", ProbeSignal, { subject: name, timeout: "1 hour" })
      .then(({ value }) => value)
      .catch(() => refund("answer"));
    const ship = () => {
      if (tries++ === 0) throw upstreamRefused("not yet");
      return { statements: [row("ship")] };
    };
    await step.commit("ship", ship, SOON).catch(() => refund("ship"));
    return [charged, looked, heard];
  };
}

/** Executes runs with planned rejections of the platform to their ends. */
async function struckCharges(steps: "platform" | "inline", plans: readonly (readonly [string, Strike])[]) {
  mode.steps = steps;
  const runs = await Promise.all(
    plans.map(async ([what, plan]) => {
      const name = fresh("struck");
      await behave({ subject: `${name}/charge`, mode: "refuse", status: 503, times: 1 });
      strike(name, plan);
      const { instanceId } = await runLab(charge(name), { name });
      return { what, name, instanceId };
    }),
  );
  const ids = runs.map(({ instanceId }) => instanceId);
  const rounds = afterRounds(ids);
  // The event is sent after the run has begun to wait, because an earlier event would make the platform's wait unnecessary.
  await Promise.all(
    runs.map(async ({ name, instanceId }) => {
      await until(
        () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", instanceId),
        (found) => found.length === 1 && (struck.get(name)?.length === 1 || strikes.get(name)?.[0]?.step === "ship"),
      );
      await deliver("probe-events", [say(name, "yes")]);
    }),
  );
  const statuses = await rounds;
  const errored = await timesErrored(ids);
  const seen = await Promise.all(
    runs.map(async ({ what, name, instanceId }, nth) => {
      const kinds = await rows<{ kind: string }>("SELECT kind FROM probe_rows WHERE name = ?1 ORDER BY kind", name);
      const charges = (await happened(`${name}/charge`)).length;
      const wrote = kinds.map(({ kind }) => kind).join();
      return { what, strikes: struck.get(name)?.length, status: statuses[nth], charges, wrote, error: await errorOf(instanceId) };
    }),
  );
  return { errored, seen };
}

const right = (plans: readonly (readonly [string, Strike])[]) => ({
  errored: 0,
  seen: plans.map(([what]) => ({ what, strikes: 1, status: "complete", charges: 1, wrote: "ship", error: null })),
});

type Place = Pick<Strike, "call" | "step" | "when">;

const PLACES: readonly Place[] = [
  { call: "do", step: "charge", when: "before" },
  { call: "do", step: "charge", when: "under way" },
  { call: "do", step: "charge", when: "behind" },
  { call: "do", step: "look", when: "before" },
  { call: "do", step: "look", when: "behind" },
  { call: "sleep", step: "rest", when: "before" },
  { call: "sleep", step: "rest", when: "under way" },
  { call: "sleep", step: "rest", when: "behind" },
  { call: "waitForEvent", step: "answer · signal", when: "before" },
  { call: "waitForEvent", step: "answer · signal", when: "under way" },
  { call: "do", step: "ship", when: "before" },
  { call: "do", step: "ship", when: "behind" },
];

/** One planned rejection for each kind of platform call. */
const ONE_EACH = PLACES.filter(({ call, step, when }) => when === "under way" || (call === "do" && step === "ship"));

describe.each(["platform", "inline"] as const)("A platform call that the platform rejects with its own error (step mode %s)", (steps) => {
  it.each(Object.entries(WORDS))("W34 the platform's own error does not change the outcome of a run: %s", async (word, says) => {
    const plans = ONE_EACH.map((place) => [`${word}: ${place.call} ${place.when}`, { ...place, says: says(), engine: "lives" }] as const);
    expect(await struckCharges(steps, plans)).toEqual(right(plans));
  });

  it.each(["lives", "dies"] as const)(
    "W34 a reset at any platform call does not change the outcome of a run (the engine process %s)",
    async (engine) => {
      const says = () => new Error("Durable Object reset because its code was updated.");
      const plans = PLACES.map((place) => [`${place.call} ${place.step} ${place.when}`, { ...place, says: says(), engine }] as const);
      expect(await struckCharges(steps, plans)).toEqual(right(plans));
    },
  );
});
