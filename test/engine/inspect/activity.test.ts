import { env } from "cloudflare:workers";
import { defineStep, upstreamRefused } from "millrace";
import { expect, it } from "vitest";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { keeperRound, reaches, until } from "../harness.ts";
import { LAB } from "../lab.ts";

const HOUR_MS = 3_600_000;
const retries = { limit: 3, delay: HOUR_MS, backoff: "constant" } as const;

const ship = defineStep<null, null>({
  effect: "lookup",
  lookup: async () => undefined,
  retries,
  run: async () => Promise.reject(new Error("The shipping service does not answer.")),
});

it("an instance between two attempts shows the step, the attempt, its error and the time of the next attempt", async () => {
  const caller = await asking();
  const began = Date.now();
  const id = await ask(caller, async ({ step }) => {
    await step.commit("note", () => ({}));
    await step.read("look", async () => Promise.reject(new Error("The shop is closed.")), { retries });
  });
  const shown = () => caller.get(`/v1/instances/${id}`);
  const { body } = await until(shown, (answer) => answer.body.retrying !== null);
  expect(body).toMatchObject({ step: "note", sleeping: null, retrying: { step: "look", attempt: 1, next_at: expect.any(String) } });
  expect(body.retrying.error).toContain("The shop is closed.");
  const inMs = Date.parse(body.retrying.next_at) - began;
  expect(inMs).toBeGreaterThanOrEqual(HOUR_MS);
  expect(inMs).toBeLessThan(HOUR_MS + 60_000);
  const { items } = (await caller.get(`/v1/instances/${id}/steps`)).body;
  expect(items).toMatchObject([
    { name: "note", state: "complete", next_attempt_at: null, effects: [{ class: "commit", generation: 1, state: "done" }] },
    {
      name: "look",
      state: "retrying",
      next_attempt_at: body.retrying.next_at,
      effects: [],
      attempts: [{ attempt: 1, retry_delay_ms: HOUR_MS }],
    },
  ]);
  expect((await caller.get("/v1/instances")).body.items).toMatchObject([{ id, retrying: null }]);
});

it("the error of an attempt is shown with its original message, also when the engine encodes its code for the platform", async () => {
  const caller = await asking();
  const closed = () => Promise.reject(upstreamRefused("The shop is closed."));
  const id = await ask(caller, ({ step }) => step.read("look", closed, { retries }));
  const { body } = await until(
    () => caller.get(`/v1/instances/${id}`),
    (answer) => answer.body.retrying !== null,
  );
  expect(body.retrying.error).toBe("The shop is closed.");
  const { items } = (await caller.get(`/v1/instances/${id}/steps`)).body;
  expect(items[0].attempts[0].error.message).toBe("The shop is closed.");
});

it("a list of instances shows the recorded failed attempts of an effect", async () => {
  const caller = await asking();
  const id = await ask(caller, ({ step }) => step.effect("ship", ship, null, { key: "b" }));
  const listed = () => caller.get("/v1/instances");
  const { body } = await until(listed, (answer) => answer.body.items[0]?.retrying !== null);
  expect(body.items).toMatchObject([{ id, retrying: { step: "ship [b]", attempt: 1, next_at: null } }]);
  // The platform records the failure a moment later.
  const shown = await until(
    () => caller.get(`/v1/instances/${id}`),
    (answer) => answer.body.retrying !== null,
  );
  expect(shown.body.retrying).toMatchObject({ step: "ship [b]", next_at: expect.any(String) });
});

it("a sleeping instance shows its step and the end of the sleep; a list shows both after the keeper has checked the instance", async () => {
  const caller = await asking();
  const id = await ask(caller, async ({ step }) => {
    await step.commit("note", () => ({}));
    await step.sleep("until noon", HOUR_MS);
  });
  const shown = () => caller.get(`/v1/instances/${id}`);
  const { body } = await until(shown, (answer) => answer.body.sleeping !== null);
  const slept = (await caller.get(`/v1/instances/${id}/steps`)).body.items.find(({ type }: { type: string }) => type === "sleep");
  expect(slept).toMatchObject({ name: "until noon", state: "sleeping", duration_ms: HOUR_MS, until: body.sleeping.until });
  expect(body).toMatchObject({ sleeping: { step: "until noon" }, retrying: null, waiting_for: [] });
  await env.DB.prepare("UPDATE millrace_instances SET status = 'waiting' WHERE id = ?1").bind(id).run();
  expect((await caller.get("/v1/instances")).body.items).toMatchObject([{ id, sleeping: { step: null, until: null } }]);
  await keeperRound();
  expect((await shown()).body.sleeping).toEqual(body.sleeping);
});

it("a sleep in a run that is paused on the platform shows no end once its time has passed", async () => {
  const caller = await asking();
  const id = await ask(caller, ({ step }) => step.sleep("a moment", 4000));
  const shown = async () => (await caller.get(`/v1/instances/${id}`)).body;
  const sleeping = await until(shown, (body) => body.sleeping?.until);
  const instance = await (env as unknown as { LAB: Workflow }).LAB.get(id);
  await instance.pause();
  const past = Date.parse(sleeping.sleeping.until);
  const paused = await until(shown, (body) => body.platform_status === "paused" && Date.now() > past);
  expect(paused.sleeping).toEqual({ step: "a moment", until: null });
  await instance.resume();
  await reaches(id, "complete");
});

it("a filter by activity returns exactly the instances that show that activity", async () => {
  const caller = await asking();
  const [sleeps, asks, fails] = await Promise.all([
    ask(caller, ({ step }) => step.sleep("until noon", HOUR_MS)),
    ask(caller, ({ step }) => step.approve("agree", { question: "Shall it go?" })),
    ask(caller, ({ step }) => step.effect("ship", ship, null)),
    ask(caller, ({ step }) => step.commit("note", () => ({}))),
  ]);
  await env.DB.prepare("UPDATE millrace_instances SET status = 'waiting' WHERE id = ?1").bind(sleeps).run();
  const ids = async (query: string) =>
    (await caller.get(`/v1/instances?${query}`)).body.items.map(({ id }: { id: string }) => id) as string[];
  await until(
    () => Promise.all(["retrying", "sleeping", "waiting"].map((one) => ids(`activity=${one}`))),
    (found) => found.flat().length === 3,
  );
  expect(await ids("activity=retrying")).toEqual([fails]);
  expect(await ids("activity=sleeping")).toEqual([sleeps]);
  expect(await ids("activity=waiting")).toEqual([asks]);
  const shown = (await caller.get("/v1/instances")).body.items as Record<string, unknown[]>[];
  const saying = (says: (one: Record<string, unknown[]>) => unknown) => shown.filter(says).map(({ id }) => id);
  expect(saying(({ retrying }) => retrying)).toEqual([fails]);
  expect(saying(({ sleeping }) => sleeping)).toEqual([sleeps]);
  expect(saying(({ waiting_for }) => waiting_for?.length)).toEqual([asks]);
  expect(await ids("activity=waiting&status=complete")).toEqual([]);
});

it("steps that the platform has deleted are shown from the records of their effects", async () => {
  const caller = await asking();
  const id = await ask(caller, async ({ step }) => {
    await step.commit("note", () => ({}), { undo: () => ({}) });
  });
  await reaches(id, "complete");
  const act = (verb: string) =>
    until(
      () => caller.post(`/v1/instances/${id}/${verb}`, { reason: "a try" }),
      ({ status }) => status === 202,
    );
  await act("undo");
  await reaches(id, "terminated");
  const steps = async () => (await caller.get(`/v1/instances/${id}/steps`)).body.items;
  expect(await steps()).toMatchObject([
    { name: "note", state: "complete" },
    { name: "undo note", attempts: [{ attempt: 1, error: null }] },
  ]);
  await act("retry");
  await reaches(id, "complete");
  expect(await steps()).toMatchObject([
    { name: "undo note", started_at: null, state: "complete", attempts: [], effects: [{ generation: 1, state: "done" }] },
    {
      name: "note",
      attempts: [{}],
      effects: [
        { generation: 1, state: "superseded" },
        { generation: 2, state: "done" },
      ],
    },
  ]);
  await (await LAB.get(id)).delete();
  expect(await steps()).toMatchObject([
    { name: "undo note", started_at: null },
    { name: "note", started_at: null, ended_at: expect.any(String), state: "complete", attempts: [], effects: [{}, {}] },
  ]);
});

it("the steps of a run show the message of a final error, which the platform hides", async () => {
  const caller = await asking();
  const id = await ask(caller, ({ step }) => step.commit("pay", () => blocked(), { retries: { limit: 0, delay: 10 } }));
  await reaches(id, "errored");
  const { items } = (await caller.get(`/v1/instances/${id}/steps`)).body;
  expect(items[0]).toMatchObject({ name: "pay", state: "errored" });
  expect(items[0].attempts.at(-1).error.message).toBe("The card is blocked.");
});

function blocked(): never {
  throw upstreamRefused("The card is blocked.");
}
