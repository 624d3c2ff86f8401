import { defineStep, type Steps } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { lab } from "../../probe/lab.ts";
import { dieAt, fresh, keeperRound, operator, pauseAt, probeEnv, reaches, retentionPass, rows, statusOf, until } from "../harness.ts";
import { held, outputOf, platformReaches, runLab } from "../lab.ts";
import { childrenOf, labCode, only } from "./children.ts";

const act = (name: "retry" | "cancel" | "undo" | "close", id: string, more: object = {}) =>
  instances.act(probeEnv, operator, name, id, { reason: "called off", ...more });
const audited = (id: string) => rows("SELECT verb, result, actor, reason FROM millrace_actions WHERE instance_id = ?1 ORDER BY at", id);

/** Steps that write their name and the name of their undo to a log. */
function logged() {
  const log: string[] = [];
  const commit = (step: Steps, name: string) => {
    const note = (text: string) => () => {
      log.push(text);
      return {};
    };
    return step.commit(name as never, note(name), { undo: note(`undo ${name}`) });
  };
  return { log, commit };
}

describe("The undo and the cancel of a parent", () => {
  it("I15 an undo undoes a complete child between the other steps of its parent, in reverse order, and a retry starts a second child", async () => {
    const { log, commit } = logged();
    const child = labCode(async ({ step }) => {
      await commit(step, "c1");
      await commit(step, "c2");
      return "done";
    });
    const { instanceId } = await runLab(async ({ step }) => {
      await commit(step, "a");
      const result = await step.child("site", lab, { name: child });
      await commit(step, "b");
      return result;
    });
    expect(await outputOf(instanceId)).toBe("done");
    const { id } = await only(instanceId);
    await act("undo", instanceId);
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(log).toEqual(["a", "c1", "c2", "b", "undo b", "undo c2", "undo c1", "undo a"]);
    expect(await audited(id)).toMatchObject([
      { verb: "undo", result: "applied", actor: "tess", reason: `Undo of the parent ${instanceId}: called off` },
    ]);
    await act("retry", instanceId);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect((await childrenOf(instanceId)).map(({ status }) => status)).toEqual(["terminated", "complete"]);
    expect(log.slice(8)).toEqual(["a", "c1", "c2", "b"]);
  });

  it("a cancel cancels the open children in the same write, each with an audit row, and ends after their undo", async () => {
    const { log, commit } = logged();
    const child = labCode(async ({ step, payload }) => {
      await commit(step, `c${payload.note}`);
      await step.sleep("long", "1 hour");
    });
    const { instanceId } = await runLab(async ({ step }) => {
      await commit(step, "a");
      await Promise.all(["1", "2"].map((note) => step.child("site", lab, { name: child, note }, { key: note })));
    });
    await reaches(instanceId, "waiting");
    const children = await childrenOf(instanceId);
    for (const { id } of children) await reaches(id, "waiting", "running");
    while (log.length < 3) await scheduler.wait(20);
    await act("cancel", instanceId);
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    for (const { id } of children) {
      expect(await statusOf(id)).toBe("terminated");
      const [cancelled, ...others] = await rows<{ verb: string; actor: string; detail: string }>(
        "SELECT verb, actor, detail FROM millrace_actions WHERE instance_id = ?1",
        id,
      );
      expect(others).toEqual([]);
      expect(cancelled).toMatchObject({ verb: "cancel", actor: "tess" });
      expect(JSON.parse(cancelled?.detail ?? "")).toMatchObject({ undo: true, run: 2, derived_from: expect.any(String) });
    }
    expect(log.slice(0, 3).toSorted()).toEqual(["a", "c1", "c2"]);
    expect(log.slice(3, 5).toSorted()).toEqual(["undo c1", "undo c2"]);
    expect(log.slice(5)).toEqual(["undo a"]);
  });

  it("the keeper cancels the parent and its children if the process dies after the commit of the cancel", async () => {
    const { log, commit } = logged();
    const child = labCode(async ({ step }) => {
      await commit(step, "c");
      await step.sleep("long", "1 hour");
    });
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    while (log.length < 1) await scheduler.wait(20);
    const { id } = await only(instanceId);
    dieAt("cancel committed, not applied");
    await act("cancel", instanceId).catch(() => undefined);
    const ended = async () => {
      await keeperRound();
      return [await statusOf(instanceId), await statusOf(id)];
    };
    await until(ended, (statuses) => statuses.every((status) => status === "terminated"));
    expect(log).toEqual(["c", "undo c"]);
  });

  it("a cancel without undo stops the open children, and their effects remain", async () => {
    const { log, commit } = logged();
    const child = labCode(async ({ step }) => {
      await commit(step, "c");
      await step.sleep("long", "1 hour");
    });
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    while (log.length < 1) await scheduler.wait(20);
    const { id } = await only(instanceId);
    await act("cancel", instanceId, { undo: false });
    expect(await statusOf(instanceId)).toBe("terminated");
    expect(await statusOf(id)).toBe("terminated");
    await keeperRound();
    expect(await platformReaches(id, "terminated", "complete")).toBe("terminated");
    expect(log).toEqual(["c"]);
  });

  it("a cancel without undo also stops the children of a child", async () => {
    const { log, commit } = logged();
    const inner = labCode(async ({ step }) => {
      await commit(step, "c");
      await step.sleep("long", "1 hour");
    });
    const child = labCode(({ step }) => step.child("inner", lab, { name: inner }));
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    while (log.length < 1) await scheduler.wait(20);
    const { id } = await only((await only(instanceId)).id);
    await act("cancel", instanceId, { undo: false });
    const ended = () => keeperRound().then(() => statusOf(id));
    expect(await until(ended, (status) => status === "terminated")).toBe("terminated");
    expect(await audited(id)).toMatchObject([{ verb: "cancel", result: "applied", actor: "tess", reason: "called off" }]);
    expect(log).toEqual(["c"]);
  });

  it("a cancel without undo also stops a child that is accepted after the cancel", async () => {
    const child = labCode(({ step }) => step.sleep("long", "1 hour"));
    const name = fresh("late");
    const paused = pauseAt("W06 about to record", name);
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }), { name });
    await until(async () => paused.reached(), Boolean);
    await act("cancel", instanceId, { undo: false });
    paused.release();
    await until(
      () => childrenOf(instanceId),
      (children) => children.length === 1,
    );
    const ended = async () => {
      await keeperRound();
      return (await only(instanceId)).status;
    };
    expect(await until(ended, (status) => status === "terminated")).toBe("terminated");
  });

  it("an undo reaches the steps after a child that an operator has undone before", async () => {
    const { log, commit } = logged();
    const child = labCode(({ step }) => commit(step, "c").then(() => "done"));
    const { instanceId } = await runLab(async ({ step }) => {
      await commit(step, "a");
      await commit(step, String(await step.child("site", lab, { name: child })));
    });
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const { id } = await only(instanceId);
    await act("undo", id);
    expect(await reaches(id, "terminated")).toBe("terminated");
    await act("undo", instanceId);
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(log).toEqual(["a", "c", "done", "undo c", "undo done", "undo a"]);
  });

  it("an undo undoes a child that is older than retention keeps, because a child is kept as long as its parent", async () => {
    const { log, commit } = logged();
    const child = labCode(({ step }) => commit(step, "c"));
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    expect(await reaches(instanceId, "complete")).toBe("complete");
    const { id } = await only(instanceId);
    const age = (one: string) => rows("UPDATE millrace_instances SET accepted_at = 1, updated_at = 1 WHERE id = ?1", one);
    await age(id);
    await retentionPass();
    await act("undo", instanceId);
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(log).toEqual(["c", "undo c"]);
    await age(instanceId);
    await age(id);
    const left = async () => {
      await retentionPass();
      return [await statusOf(instanceId), await statusOf(id)];
    };
    expect(await until(left, (statuses) => statuses.every((status) => status === undefined))).toEqual([undefined, undefined]);
  });

  it("a cancel refuses later outcomes of hanging attempts of the children, because no outcome would wake the undo of a child", async () => {
    const pay = defineStep({ effect: "once", retries: { limit: 0, delay: 10 }, run: () => Promise.reject(new Error("Lost.")) });
    const child = labCode(({ step }) => step.effect("pay", pay, {}));
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    await until(
      () => childrenOf(instanceId),
      ([one]) => one?.status === "in_doubt",
    );
    const { id } = await only(instanceId);
    const epoch = () => rows<{ epoch: number }>("SELECT epoch FROM millrace_inbox WHERE instance_id = ?1 AND state = 'in_doubt'", id);
    const [before] = await epoch();
    await act("cancel", instanceId);
    expect(await epoch()).toEqual([{ epoch: Number(before?.epoch) + 1 }]);
    expect(await statusOf(id)).toBe("in_doubt");
  });

  it("an undo of a failed parent cancels the child that is still in progress", async () => {
    const { log, commit } = logged();
    const name = fresh("held");
    const child = labCode(async ({ step }) => {
      await commit(step, "c");
      await step.sleep("long", "1 hour");
    }, name);
    const { instanceId } = await runLab(async ({ step }) => {
      const fails = async () => {
        await step.read("until the child works", () => held(() => log.includes("c")));
        throw new Error("Broken.");
      };
      await Promise.all([step.child("site", lab, { name: child }), fails()]);
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    await act("undo", instanceId);
    expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
    expect(await only(instanceId)).toMatchObject({ status: "terminated" });
    expect(log).toEqual(["c", "undo c"]);
  });

  it("a cancelled child is an error of its parent", async () => {
    const child = labCode(async ({ step }) => {
      await step.commit("c", () => ({}));
      await step.sleep("long", "1 hour");
    });
    const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
    expect(await reaches(instanceId, "waiting")).toBe("waiting");
    const { id } = await only(instanceId);
    await reaches(id, "waiting", "running");
    await act("cancel", id);
    expect(await reaches(instanceId, "errored")).toBe("errored");
    const [row] = await rows<{ error: string }>("SELECT error FROM millrace_instances WHERE id = ?1", instanceId);
    expect(JSON.parse(row?.error ?? "")).toMatchObject({ code: "child_failed", message: expect.stringContaining("is terminated") });
  });
});
