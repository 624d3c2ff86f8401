import { env } from "cloudflare:workers";
import { defineStep } from "millrace";
import { approvals, instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { mode } from "../../probe/mode.ts";
import {
  dieAt,
  event,
  fresh,
  happened,
  keeperRound,
  operator,
  probeEnv,
  reaches,
  restarted,
  retentionPass,
  rows,
  start,
  statusOf,
  until,
} from "../harness.ts";
import { held, outputOf, parkedBesideFailure, runLab } from "../lab.ts";
import { asking, audited, LONG, outputs, questions, stranger } from "./asking.ts";

describe("A question to an operator", () => {
  it("a question to an operator holds its instance, shows the effects of an approval, and the instance continues with the answer", async () => {
    const { name, instanceId, id, question } = await asking();
    expect(await statusOf(instanceId)).toBe("waiting");
    expect(question).toMatchObject({
      step: "ask",
      workflow: "probe",
      question: `May ${name}/ask happen?`,
      details: { subject: `${name}/ask` },
      state: "pending",
      otherwise: "reject",
    });
    expect(await happened(`${name}/act`)).toEqual([]);

    await approvals.decide(probeEnv, operator, id, "approve", "looks good");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await outputs(instanceId))[1]).toEqual({ approved: true, by: "tess", reason: "looks good" });
    expect(await happened(`${name}/act`)).toHaveLength(1);
    expect(await approvals.get(probeEnv, operator, id)).toMatchObject({ state: "approved", decided_by: "tess", reason: "looks good" });
    expect(await audited(instanceId)).toEqual([{ actor: "tess", verb: "approve", reason: "looks good", result: "applied" }]);
  });

  it("a question has two billed steps: one asks, one waits", async () => {
    const { instanceId, id } = await asking();
    await approvals.decide(probeEnv, operator, id, "reject", "no");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    const { steps } = await instances.history(probeEnv, { id: instanceId, workflow: "probe" });
    // With the step mode inline, other steps may also be platform steps, when their replay is not known to be the first.
    const names = steps.map(({ name }) => name).filter((name) => mode.steps === "platform" || name.startsWith("ask"));
    expect(names).toEqual([
      ...(mode.steps === "platform" ? ["before"] : []),
      "ask",
      "ask · answer",
      ...(mode.steps === "platform" ? ["act"] : []),
    ]);
  });

  it("a question is answered once, and a second answer is refused and audited", async () => {
    const { instanceId, id } = await asking();
    const answers = await Promise.allSettled([
      approvals.decide(probeEnv, operator, id, "approve", "yes"),
      approvals.decide(probeEnv, operator, id, "reject", "no"),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    const { state } = await approvals.get(probeEnv, operator, id);
    const refused = answers.find((answer) => answer.status === "rejected");
    expect(refused?.reason).toMatchObject({ code: "invalid_transition", detail: { from: state } });
    expect((await audited(instanceId)).map(({ result }) => result)).toEqual(["applied", "no_change"]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect((await outputs(instanceId))[1]).toMatchObject({ approved: state === "approved" });
  });

  it("I1 a refused answer to a question does not delay the keeper's check of its run", async () => {
    const { instanceId, id } = await asking();
    const dueAt = async () => (await rows<{ due_at: number }>("SELECT due_at FROM millrace_approvals WHERE id = ?1", id))[0]?.due_at;
    const asked = await dueAt();
    const soon = Date.now() + 3000;
    await env.DB.batch([
      env.DB.prepare("UPDATE millrace_approvals SET due_at = 0 WHERE id = ?1").bind(id),
      env.DB.prepare("UPDATE millrace_instances SET check_at = ?1 WHERE id = ?2").bind(soon, instanceId),
    ]);
    await expect(approvals.decide(probeEnv, operator, id, "approve", "again")).rejects.toMatchObject({ code: "invalid_transition" });
    expect(await rows("SELECT check_at FROM millrace_instances WHERE id = ?1", instanceId)).toEqual([{ check_at: soon }]);
    await rows("UPDATE millrace_approvals SET due_at = ?1 WHERE id = ?2", asked, id);
    await approvals.decide(probeEnv, operator, id, "approve", "in time");
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });

  it("a question belongs to its tenant: no other tenant can answer it", async () => {
    const { id } = await asking();
    await expect(approvals.decide(probeEnv, stranger, id, "approve", "mine?")).rejects.toMatchObject({ code: "approval_not_found" });
    await expect(approvals.get(probeEnv, operator, "nonsense")).rejects.toMatchObject({ code: "approval_not_found" });
    expect((await approvals.get(probeEnv, operator, id)).state).toBe("pending");
  });

  it("an answer to a question is refused, with that reason, when the run is over", async () => {
    const { instanceId } = await runLab(({ step }) =>
      Promise.race([step.approve("ask", { question: "May it?", timeout: "1 hour" }), step.sleep("patience", 20)]),
    );
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const [question] = await questions(instanceId);
    await expect(approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "gladly")).rejects.toMatchObject({
      code: "invalid_transition",
      message: expect.stringContaining("its instance is complete"),
    });
    expect((await approvals.get(probeEnv, operator, question?.id ?? "")).state).toBe("pending");
    const { items } = await approvals.list(probeEnv, operator, { state: "pending", limit: 200 });
    expect(items.filter((one) => one.instance_id === instanceId)).toEqual([]);
    expect((await approvals.list(probeEnv, operator, { state: "pending", instance: instanceId })).items).toEqual([]);
  });

  it("an answer to a question is refused while its run is being undone, and accepted after a retry", async () => {
    const world = { away: true };
    const note = defineStep({
      effect: "keyed",
      run: async () => "noted",
      undo: { effect: "keyed", retries: { limit: 0, delay: 10 }, run: async () => void (await held(() => !world.away)) },
    });
    const { instanceId, mend } = await parkedBesideFailure(
      async (step) => {
        await step.effect("note", note, {});
        return (await step.approve("ask", { question: "May it?", timeout: "1 hour" })).approved;
      },
      async (id) => (await questions(id)).length === 1,
    );
    const [question] = await questions(instanceId);
    const answer = () => approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "gladly");
    await instances.act(probeEnv, operator, "undo", instanceId, { reason: "called off" });
    await expect(answer()).rejects.toMatchObject({ message: expect.stringContaining("its instance is being undone") });
    world.away = false;
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    mend();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the run may continue" });
    await answer();
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });

  it("the keeper delivers an answer when the process died between the answer and its delivery", async () => {
    const { name, instanceId, id } = await asking();
    dieAt("question answered, instance not notified");
    await expect(approvals.decide(probeEnv, operator, id, "approve", "yes")).rejects.toThrow("Died");
    await keeperRound();
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await outputs(instanceId))[1]).toMatchObject({ approved: true, by: "tess" });
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("an answer that precedes the run's wait is delivered when the run asks", async () => {
    const { name, instanceId, id } = await asking();
    // The test answers and then restarts the platform's instance. So the answer exists when the run asks again.
    const instance = await probeEnv.PROBE.get(instanceId);
    await env.DB.prepare(
      "UPDATE millrace_approvals SET state = 'approved', decided_by = 'tess', reason = 'early', decided_at = 1 WHERE id = ?1",
    )
      .bind(id)
      .run();
    await instance.restart();
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await outputs(instanceId))[1]).toEqual({ approved: true, by: "tess", reason: "early" });
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("W15 an answered question is read from its row after a restart, and is not asked again", async () => {
    const { name, instanceId, id } = await asking();
    await approvals.decide(probeEnv, operator, id, "reject", "not today");
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(await restarted(instanceId)).toBe("complete");
    expect((await outputs(instanceId))[1]).toEqual({ approved: false, by: "tess", reason: "not today" });
    expect(await questions(instanceId)).toHaveLength(1);
    expect(await happened(`${name}/act`)).toHaveLength(1);
  });

  it("an open question is the same question after a restart, and its timeout continues", async () => {
    const { instanceId, id, question } = await asking();
    await (await probeEnv.PROBE.get(instanceId)).restart();
    await approvals.decide(probeEnv, operator, id, "approve", "yes");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await questions(instanceId)).toMatchObject([{ id, asked_at: question?.asked_at, due_at: question?.due_at }]);
  });

  it("W16 an answer during an errored run is used when the retry of another branch continues the run", async () => {
    const { instanceId, mend } = await parkedBesideFailure(
      (step) => step.approve("ask", { question: "May it?", timeout: "1 hour" }),
      async (id) => (await rows("SELECT 1 FROM millrace_approvals WHERE instance_id = ?1", id)).length > 0,
    );
    const [question] = await questions(instanceId);
    await approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "yes");
    mend();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await outputOf(instanceId)).toEqual({ approved: true, by: "tess", reason: "yes" });
  });

  it("two questions of an instance are separate: each waits for its own answer", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "approve", name: "first", ...LONG },
      { do: "approve", name: "second", ...LONG },
    ]);
    const [first] = await questions(instanceId);
    await approvals.decide(probeEnv, operator, first?.id ?? "", "approve", "one");
    const [second] = await questions(instanceId, 2);
    expect(second).toMatchObject({ step: "second", state: "pending" });
    expect(await statusOf(instanceId)).toBe("waiting");
    await approvals.decide(probeEnv, operator, second?.id ?? "", "reject", "two");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputs(instanceId)).toMatchObject([
      { approved: true, reason: "one" },
      { approved: false, reason: "two" },
    ]);
  });

  it("a question in a map is asked for each item, and the instance waits until the last answer", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [["a", "b"].map((key) => ({ do: "approve" as const, name: "ask", key, ...LONG }))]);
    const asked = await questions(instanceId, 2);
    expect(asked.map(({ step }) => step).sort()).toEqual(["ask [a]", "ask [b]"]);
    const of = (step: string) => asked.find((one) => one.step === step)?.id ?? "";
    await approvals.decide(probeEnv, operator, of("ask [b]"), "approve", "b");
    expect(await statusOf(instanceId)).toBe("waiting");
    await approvals.decide(probeEnv, operator, of("ask [a]"), "reject", "a");
    expect(await statusOf(instanceId)).not.toBe("waiting");
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputs(instanceId)).toMatchObject([
      [
        { approved: false, reason: "a" },
        { approved: true, reason: "b" },
      ],
    ]);
  });

  it("an answer while another branch waits for an event leaves the instance waiting", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      [
        { do: "approve", name: "ask", ...LONG },
        { do: "wait", name: "wait", subject: name },
      ],
    ]);
    const waits = () => rows("SELECT name FROM millrace_waits WHERE instance_id = ?1", instanceId);
    await until(waits, (found) => found.length > 0);
    const [question] = await questions(instanceId);
    await approvals.decide(probeEnv, operator, question?.id ?? "", "approve", "yes");
    expect(await statusOf(instanceId)).toBe("waiting");
    await probeEnv.PROBE_EVENTS.send(event("probe.signal", name, { about: name, value: "came" }));
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  });
});

it("a question is deleted with its instance", async () => {
  const old = await asking();
  const young = await asking();
  await approvals.decide(probeEnv, operator, old.id, "approve", "yes");
  expect(await reaches(old.instanceId, "complete")).toBe("complete");
  await env.DB.prepare("UPDATE millrace_instances SET updated_at = 1, accepted_at = 1 WHERE id = ?1").bind(old.instanceId).run();
  await env.DB.prepare("UPDATE millrace_actions SET applied_at = 1 WHERE instance_id = ?1").bind(old.instanceId).run();
  await retentionPass();
  expect((await approvals.list(probeEnv, operator, { instance: old.instanceId })).items).toEqual([]);
  expect((await approvals.list(probeEnv, operator, { instance: young.instanceId })).items).toHaveLength(1);
});
