import type { MillraceError, Steps } from "millrace";
import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { STATUS_VALID_MS } from "../../../packages/millrace/src/replay/run-state.ts";
import { type LabCall, lab, labs } from "../../probe/lab.ts";
import { blocked } from "../../probe/turns.ts";
import { keeperRound, operator, probeEnv, reaches, retentionPass, rows, statusOf, until } from "../harness.ts";
import { crowd } from "../intake/flowing.ts";
import { age, ENGINE_RETENTION, run } from "../keeper/aged.ts";
import { held, LAB, outputOf, platformOf, refuse, restartLab, runLab } from "../lab.ts";
import { TurnKey } from "../lanes/turning.ts";
import { childrenOf, labCode, only, scripted } from "./children.ts";

const act = (name: "retry" | "cancel" | "undo" | "pause" | "resume", id: string, more: object = {}) =>
  instances.act(probeEnv, operator, name, id, { reason: "test", ...more });

/** Moves instances, their waits and the reports about them into the past by this number of days. */
async function ago(days: number, ...ids: string[]): Promise<void> {
  const ms = days * 86_400_000;
  for (const id of ids) {
    await run("UPDATE millrace_instances SET accepted_at = accepted_at - ?2, updated_at = updated_at - ?2 WHERE id = ?1", id, ms);
    await run("UPDATE millrace_waits SET since_at = since_at - ?2, asked_at = asked_at - ?2 WHERE instance_id = ?1", id, ms);
    await run("UPDATE millrace_signals SET received_at = received_at - ?2 WHERE subject = ?1", id, ms);
  }
}

/** Deletes a run on the platform, as the platform does after its retention. */
async function forget(id: string): Promise<void> {
  await (await LAB.get(id)).delete();
  expect((await platformOf(id)).status).toBe("unknown");
}

/** Runs rounds of the keeper until an instance has one of these statuses. */
const inTime = (id: string, ...statuses: string[]) =>
  until(
    () => keeperRound().then(() => statusOf(id)),
    (status) => statuses.includes(status ?? ""),
  );

const told = (parent: string, count = 1) =>
  until(
    () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND told_at IS NOT NULL", parent),
    (all) => all.length === count,
  );

/** A parent that waits for a child. */
async function waitingParent() {
  const { child, state } = scripted("held");
  const { instanceId } = await runLab(({ step }) => step.child("site", lab, { name: child }));
  expect(await reaches(instanceId, "waiting")).toBe("waiting");
  return { instanceId, state, id: (await only(instanceId)).id };
}

it.each([false, true])(
  "a child that ends 400 days after its start resumes its parent (parent unknown to the platform: %s)",
  async (isForgotten) => {
    const { instanceId, id, state } = await waitingParent();
    await ago(400, instanceId, id);
    await retentionPass();
    if (isForgotten) await forget(instanceId);
    await keeperRound();
    state.now = "fine";
    expect(await inTime(instanceId, "complete", "errored")).toBe("complete");
    expect(await outputOf(instanceId)).toBe("repaired");
    expect(await childrenOf(instanceId)).toHaveLength(1);
  },
);

it("the large result of a child that ended 60 days ago is kept for its paused parent, although the platform has deleted the child", async () => {
  const state = { go: false, isPaused: false };
  const child = labCode(async ({ step }) => {
    await step.read("held", () => held(() => state.isPaused));
    return { text: "x".repeat(40_000) };
  });
  const { instanceId } = await runLab(async ({ step }) => {
    const [{ text }] = await Promise.all([
      step.child("site", lab, { name: child }) as Promise<{ text: string }>,
      step.read("hold", () => held(() => state.go)),
    ]);
    return text.length;
  });
  const [one] = await until(
    () => childrenOf(instanceId),
    (children) => children.length === 1,
  );
  await act("pause", instanceId);
  // Afterwards the parent reads its status before it continues with the child's result.
  await scheduler.wait(STATUS_VALID_MS);
  state.isPaused = true;
  const id = one?.id ?? "";
  expect(await reaches(id, "complete")).toBe("complete");
  state.go = true;
  await ago(60, instanceId, id);
  await forget(id);
  await retentionPass();
  const objects = ENGINE_RETENTION.find(({ name }) => name === "payloads and outputs");
  await objects?.prune(probeEnv, -1, null);
  expect(await statusOf(id)).toBe("complete");
  await act("resume", instanceId);
  expect(await inTime(instanceId, "complete", "errored")).toBe("complete");
  expect(await outputOf(instanceId)).toBe(40_000);
});

it("a child that ends after the removal of its parent leaves no row", async () => {
  const { child, state } = scripted("held");
  const { instanceId } = await runLab(({ step }) => Promise.race([step.child("site", lab, { name: child }), step.sleep("short", 1000)]));
  expect(await inTime(instanceId, "complete")).toBe("complete");
  const { id } = await only(instanceId);
  await age(instanceId, 40);
  await retentionPass();
  expect(await statusOf(instanceId)).toBeUndefined();
  state.now = "fine";
  expect(await inTime(id, "complete", "errored")).toBe("complete");
  await ago(40, id);
  await retentionPass();
  expect(await statusOf(id)).toBeUndefined();
  for (const [table, column] of [
    ["waits", "instance_id"],
    ["inbox", "instance_id"],
    ["signals", "subject"],
  ]) {
    // A pass ends after two seconds, and the rows of other tests may come first. The child's end may be sent to the parent only now.
    const left = () =>
      ago(40, id)
        .then(() => retentionPass())
        .then(() => rows(`SELECT 1 FROM millrace_${table} WHERE ${column} IN (?1, ?2)`, instanceId, id));
    expect(await until(left, ({ length }) => length === 0)).toEqual([]);
  }
});

it("the child of a parent that was terminated on the platform continues, and a retry of the parent gets its result", async () => {
  const { instanceId, id, state } = await waitingParent();
  await (await LAB.get(instanceId)).terminate();
  expect(await inTime(instanceId, "terminated")).toBe("terminated");
  expect(await reaches(id, "running", "queued", "accepted")).not.toBe("terminated");
  state.now = "fine";
  expect(await inTime(id, "complete", "errored")).toBe("complete");
  expect(await statusOf(instanceId)).toBe("terminated");
  await act("retry", instanceId);
  expect(await inTime(instanceId, "complete", "errored")).toBe("complete");
  expect(await outputOf(instanceId)).toBe("repaired");
  expect(await childrenOf(instanceId)).toHaveLength(1);
});

/** Steps that write their name and the name of their undo to a log. */
function logged() {
  const log: string[] = [];
  const note = (text: string) => () => {
    log.push(text);
    return {};
  };
  return { log, commit: (step: Steps, name: string) => step.commit(name as never, note(name), { undo: note(`undo ${name}`) }) };
}

it("a parent that continued after the failure of a child keeps its path when an operator retries the child, in a restart and in an undo", async () => {
  const { log, commit } = logged();
  const state = { broken: true };
  const child = labCode(async ({ step }) => {
    await commit(step, "work");
    await step.commit("fails", () => (state.broken ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
  });
  const { instanceId } = await runLab(async ({ step }) => {
    const failure = await step.child("site", lab, { name: child }).catch((error: MillraceError) => error.code);
    await commit(step, failure === "child_failed" ? "fallback" : "success");
    return failure ?? null;
  });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  const { id } = await only(instanceId);
  state.broken = false;
  await act("retry", id);
  expect(await reaches(id, "complete")).toBe("complete");
  expect(await restartLab(instanceId)).toBe("complete");
  expect(await outputOf(instanceId)).toBe("child_failed");
  expect(log).toEqual(["work", "fallback"]);
  await act("undo", instanceId);
  expect(await reaches(instanceId, "terminated", "errored")).toBe("terminated");
  expect(log).toEqual(["work", "fallback", "undo fallback", "undo work"]);
  expect(await statusOf(id)).toBe("terminated");
});

it("a retry of a failed child completes the child, while its parent that has received the failure waits for other children", async () => {
  const [one, other] = [scripted("broken"), scripted("held")];
  const { instanceId } = await runLab(async ({ step }) => {
    const names = [one.child, other.child];
    const all = await Promise.allSettled(names.map((name) => step.child("site", lab, { name }, { key: name })));
    return all.map(({ status }) => status);
  });
  await told(instanceId);
  const failed = (await childrenOf(instanceId)).find(({ status }) => status === "errored")?.id ?? "";
  one.state.now = "fine";
  await act("retry", failed);
  expect(await reaches(failed, "complete")).toBe("complete");
  expect(await statusOf(instanceId)).toBe("waiting");
  other.state.now = "fine";
  expect(await inTime(instanceId, "complete", "errored")).toBe("complete");
  expect(await outputOf(instanceId)).toEqual(["rejected", "fulfilled"]);
});

it.each([true, false])("a cancel of a parent reaches complete, failed, running and waiting children (undo: %s)", async (undo) => {
  const { command, nameOf, tenantId, send, hasBegun, end } = await crowd();
  const { log, commit } = logged();
  const works = (name: string, after: (call: LabCall) => Promise<unknown>) =>
    labs.set(nameOf(name), async (call) => {
      await commit(call.step, name);
      await after(call);
    });
  works("done", async () => 1);
  works("running", ({ step }) => step.sleep("long", "1 hour"));
  works("failed", ({ step }) => step.commit("fails", refuse, { retries: { limit: 0, delay: 10 } }));
  works("slot", async () => 1);
  command("holder", "slot");
  await send("holder", {}, "slot");
  await hasBegun("holder");
  const turn = new TurnKey(blocked, tenantId);
  const open = turn.gate("first");
  await turn.ask("first");
  await turn.seenBy("first begins");
  const { instanceId } = await runLab(
    async ({ step }) => {
      const one = (name: string) => step.child("site", lab, { name: nameOf(name), note: name }, { key: name }).catch(() => undefined);
      const queued = step.child("site", blocked.workflow, turn.payload("second"), { key: "lane" });
      await Promise.all([...["done", "running", "failed", "slot"].map(one), queued]);
    },
    { tenantId, note: "parent" },
  );
  const statuses = async () =>
    Object.fromEntries((await childrenOf(instanceId)).map(({ parent_step: step, status }) => [step.slice(6, -1), status]));
  await until(
    async () => [Object.keys(await statuses()).length, log.length, (await statuses()).done, (await statuses()).failed],
    (now) => now.join() === "5,3,complete,errored",
  );
  await instances.act(probeEnv, { ...operator, tenantId }, "cancel", instanceId, { reason: "test", undo });
  expect(await inTime(instanceId, "terminated", "errored")).toBe("terminated");
  const over = { running: "terminated", slot: "terminated", lane: "terminated" };
  const others = undo ? { done: "terminated", failed: "terminated" } : { done: "complete", failed: "errored" };
  expect(await statuses()).toEqual({ ...over, ...others });
  end("all");
  open();
  await turn.seenBy("first ends");
  for (let round = 0; round < 3; round++) await keeperRound();
  expect(await turn.seen()).toEqual(["first begins", "first ends"]);
  const names = ["done", "failed", "running"];
  expect(log.toSorted()).toEqual([...names, ...(undo ? names.map((name) => `undo ${name}`) : [])]);
  expect(await inTime(await send("next", {}, "slot"), "complete")).toBe("complete");
});
