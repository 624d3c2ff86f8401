import { defineStep } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";
import { mode } from "../../probe/mode.ts";
import { asking } from "../asking.ts";
import { doubtful } from "../guard/doubtful.ts";
import { operator, probeEnv, reaches } from "../harness.ts";
import { runLab } from "../lab.ts";
import { effect, ONCE, retry, undo } from "../operate/operating.ts";
import { kept, play, scene } from "../operate/scene.ts";

it("an instance in doubt and its steps show the step, the time and the endpoint for the answer, until an operator answers", async () => {
  const { get, post } = await asking(["read", "operate"], operator.tenantId);
  const { instanceId, key } = await doubtful();
  const at = `/v1/effects/${key}`;
  const doubts = [{ step: "mail", effect: key, since: expect.any(String), why: expect.any(String) }];
  const answers = { confirm: `${at}/confirm`, reject: `${at}/reject`, retry: `${at}/retry` };
  expect((await get(`/v1/instances/${instanceId}`)).body).toMatchObject({
    status: "in_doubt",
    unknown_outcomes: [{ ...doubts[0], ...answers }],
  });
  const steps = async () => (await get(`/v1/instances/${instanceId}/steps`)).body.items;
  const why = (await get(`/v1/instances/${instanceId}`)).body.unknown_outcomes[0].why;
  expect(await steps()).toMatchObject([
    { type: "do", name: "mail", state: "in_doubt", ended_at: null, attempts: [{ attempt: 1, error: { message: why } }] },
    { type: "waitForEvent", name: "mail · in doubt 1", state: "waiting", event_type: null },
  ]);
  expect((await post(answers.confirm, { output: "sent", reason: "The mail is in their inbox." })).status).toBe(202);
  expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  expect((await get(`/v1/instances/${instanceId}`)).body).toMatchObject({ status: "complete", unknown_outcomes: [] });
  expect(await steps()).toMatchObject([{ name: "mail", state: "complete" }, {}, {}, { name: "after" }]);
});

const modes = ["platform", "inline"] as const;

/** A run with a completed effect and a second effect with a lost answer, both as steps of this mode. */
async function lost(steps: (typeof modes)[number]) {
  mode.steps = steps;
  onTestFinished(() => {
    mode.steps = "platform";
  });
  const api = await asking(["read", "operate"], operator.tenantId);
  const its = scene();
  const id = await play(its, async (step) => {
    await its.act(step, "a", "keyed");
    its.state.lose = !its.log.includes("b");
    return its.act(step, "b", "once");
  });
  expect(await kept(id, "in_doubt")).toBe("in_doubt");
  const doubt = async () => (await api.get(`/v1/instances/${id}`)).body.unknown_outcomes[0];
  const listed = async () => {
    const { body } = await api.get("/v1/effects?limit=200&workflow=lab");
    return body.items.find((one: { instance_id: string }) => one.instance_id === id);
  };
  /** Whether a retry is offered by the instance and by the list of effects, and the status of a retry request. */
  const again = async (key: string) => {
    const offered = [(await listed()).consequences.retry !== null];
    const own = await doubt();
    if (own) offered.push(own.retry !== null, own.consequences.retry !== null);
    return { offered: [...new Set(offered)], asked: (await api.post(`/v1/effects/${key}/retry`, { reason: "Who knows?" })).status };
  };
  return { api, its, id, doubt, listed, again, key: (await listed()).key as string };
}

it.each(modes)("an unknown outcome in a cancelled run offers no retry, and shows that a rejection sends nothing (%s)", async (steps) => {
  const { api, its, id, doubt, listed, again, key } = await lost(steps);
  expect(await doubt()).toMatchObject({ consequences: { reject: "It is sent now, under the same key." } });
  await instances.act(probeEnv, operator, "cancel", id, { reason: "called off" });
  const follows = {
    confirm: expect.stringContaining("the effect is undone: the undo continues"),
    reject: "Nothing is sent, and there is nothing to undo: the undo continues.",
    retry: null,
  };
  expect(await doubt()).toMatchObject({ step: "b", retry: null, consequences: follows });
  expect(await listed()).toMatchObject({ step: "b", workflow: "lab", subject: its.name, consequences: follows });
  expect(await again(key)).toEqual({ offered: [false], asked: 409 });
  expect((await api.post((await doubt()).reject, { reason: "The upstream has no record of it." })).status).toBe(202);
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect(its.log).toEqual(["a", "b", "undo a(its a)"]);
});

it.each(modes)(
  "an unknown outcome in a run that was cancelled without undo shows that nothing is sent before a retry (%s)",
  async (steps) => {
    const { its, id, doubt, again, key } = await lost(steps);
    await instances.act(probeEnv, operator, "cancel", id, { reason: "not now", undo: false });
    expect(await doubt()).toMatchObject({
      consequences: {
        confirm: expect.stringContaining("Nothing runs now: a retry continues with the output that you enter"),
        reject: "Nothing is sent now: a retry sends it, under the same key.",
        retry: expect.stringContaining("Nothing is sent now: a retry sends it, under a new key"),
      },
    });
    expect(await again(key)).toEqual({ offered: [true], asked: 202 });
    expect(its.log).toEqual(["a", "b"]);
    await retry(id);
    expect(await kept(id, "complete", "in_doubt", "errored")).toBe("complete");
    expect(its.log).toEqual(["a", "b", "b"]);
  },
);

it.each([
  ["paused", true, "a resume sends it"],
  ["complete", false, "the instance does not continue"],
  ["skipped", false, "the instance does not continue"],
])("an unknown outcome of an instance that is %s offers a retry only where the retry is accepted", async (status, isOffered, said) => {
  const { id, listed, again, key } = await lost("platform");
  await probeEnv.DB.prepare("UPDATE millrace_instances SET status = ?2 WHERE id = ?1").bind(id, status).run();
  expect((await listed()).consequences.reject).toContain(said);
  expect(await again(key)).toEqual({ offered: [isOffered], asked: isOffered ? 202 : 409 });
});

it.each(modes)("an unknown outcome of an undo step offers a retry, which is executed at once (%s)", async (steps) => {
  mode.steps = steps;
  onTestFinished(() => {
    mode.steps = "platform";
  });
  const { get, post } = await asking(["read", "operate"], operator.tenantId);
  const did: string[] = [];
  const refund = defineStep<Done<unknown, unknown>, unknown>({
    effect: "once",
    ...ONCE,
    run: async () => {
      if (did.push("refund") === 2) throw new Error("The answer was lost.");
    },
  });
  const { instanceId: id } = await runLab(({ step }) =>
    step.effect(
      "pay",
      effect("keyed", async () => did.push("pay"), { undo: refund }),
      {},
    ),
  );
  expect(await kept(id, "complete")).toBe("complete");
  await undo(id);
  expect(await kept(id, "in_doubt", "terminated")).toBe("in_doubt");
  const [doubt] = (await get(`/v1/instances/${id}`)).body.unknown_outcomes;
  expect(doubt).toMatchObject({
    step: "undo pay",
    consequences: {
      confirm: expect.stringContaining("the undo continues. Nothing is sent"),
      reject: "It is sent now, under the same key.",
    },
  });
  expect((await post(doubt.retry, { reason: "A second refund is acceptable." })).status).toBe(202);
  expect(await kept(id, "terminated", "errored")).toBe("terminated");
  expect(did).toEqual(["pay", "refund", "refund"]);
});
