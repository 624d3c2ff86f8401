import type { Envelope } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it, vi } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { deliver, dieAt, fresh, keeperRound, operator, probeEnv, reaches, rows, start, statusOf, until } from "../harness.ts";
import { errorOf, LAB, outputOf, parkedBesideFailure, platformReaches, restartLab, runLab } from "../lab.ts";
import { hear, openWaits, say } from "./waiting.ts";

describe("A run with waits for events", () => {
  it("W27 a second wait for the same event gets it after the first has timed out, also in every later replay", async () => {
    let heard: string[] = [];
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      heard = [await hear(step, "first", payload.name, 50)];
      await step.commit("remind", () => ({}));
      heard.push(await hear(step, "second", payload.name));
    });
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", instanceId),
      (found) => found.length === 1,
    );
    await deliver("probe-events", [say(name, "yes")]);
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toEqual(["timeout", "yes"]);
    await deliver("probe-events", [say(name, "a second yes")]);
    heard = [];
    expect(await restartLab(instanceId)).toBe("complete");
    expect(heard).toEqual(["timeout", "yes"]);
  });

  it("W27 an event after a wait's timeout does not belong to that wait, also when the run wrote nothing after it", async () => {
    let heard = "";
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      heard = await hear(step, "answer", payload.name, 50);
    });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    await deliver("probe-events", [say(name, "late")]);
    heard = "";
    expect(await restartLab(instanceId)).toBe("complete");
    expect(heard).toBe("timeout");
  });

  it("W27 a wait with a timeout of zero ends at once", async () => {
    let heard = "";
    const { instanceId } = await runLab(async ({ step, payload }) => {
      heard = await hear(step, "answer", payload.name, 0);
    });
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toBe("timeout");
  });

  it("W27 a later wait gets the event when an earlier wait for the same event has lost a race", async () => {
    let heard = "";
    const { instanceId, name } = await runLab(async ({ step, payload, instanceId: id }) => {
      const raced = hear(step, "raced", payload.name);
      await Promise.race([raced, step.read("faster", () => openWaits(id, 1).then(() => "won"))]);
      heard = await hear(step, "later", payload.name);
    });
    await openWaits(instanceId, 2);
    await deliver("probe-events", [say(name, "yes")]);
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toBe("yes");
  });

  it("A10 a wait gets the stored one of two different events with one key in one delivery", async () => {
    const heard: string[] = [];
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      heard.push(await hear(step, "first", payload.name));
      heard.push(await hear(step, "second", payload.name));
    });
    await openWaits(instanceId, 1);
    const [one, other] = [say(name, "kept"), say(name, "kept too")];
    const refused = (event: Envelope) => ({ ...event, payload_inline: { about: name, value: "refused" } });
    await deliver("probe-events", [one, refused(one), other, refused(other)]);
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard.toSorted()).toEqual(["kept", "kept too"]);
  });

  it("W24 an event that is sent again under its key is the same event, also with another causation id, and ends one wait", async () => {
    const heard: string[] = [];
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      heard.push(await hear(step, "first", payload.name));
      heard.push(await hear(step, "second", payload.name));
    });
    await openWaits(instanceId, 1);
    const first = say(name, "yes");
    await deliver("probe-events", [{ ...first, causation_id: "a request" }]);
    await until(
      async () => heard.length,
      (count) => count === 1,
    );
    await openWaits(instanceId, 1);
    await deliver("probe-events", [{ ...first, causation_id: "a repeated request" }]);
    await keeperRound();
    expect(heard).toEqual(["yes"]);
    await deliver("probe-events", [say(name, "another yes")]);
    expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toEqual(["yes", "another yes"]);
  });

  it("W26 a wait that times out when its event arrives has the result that the database stored first, in every later replay", async () => {
    let heard = "";
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      heard = await hear(step, "answer", payload.name, 400);
      await step.commit(heard === "timeout" ? "give up" : "go on", () => ({}));
    });
    await openWaits(instanceId, 1);
    // The row has its event, the delivery is lost, and the wait times out before the keeper's next check.
    dieAt("signal stored, instance not notified");
    await deliver("probe-events", [say(name, "in time")]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toBe("in time");
    heard = "";
    expect(await restartLab(instanceId)).toBe("complete");
    expect(heard).toBe("in time");
    expect(await rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1", instanceId)).toEqual([{ step: "go on" }]);
  });

  it("W26 an event after the timeout does not end its wait, although the run is not notified of the timeout; after a retry it does", async () => {
    const heard: string[] = [];
    const { instanceId, name } = await runLab(async ({ step, payload }) => {
      heard.push((await step.waitFor("answer", ProbeSignal, { subject: payload.name, timeout: 50 })).value);
    });
    expect(await reaches(instanceId, "errored")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "answer", code: "wait_timeout" });
    await deliver("probe-events", [say(name, "late")]);
    await platformReaches(instanceId, "errored");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "the event has arrived" });
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    expect(heard).toEqual(["late"]);
  });

  it("W28 the keeper delivers an event with a lost delivery once, in every status, although another branch has written", async () => {
    const heard: string[] = [];
    const { instanceId, name } = await runLab(({ step, payload, instanceId: id }) =>
      Promise.all([
        hear(step, "answer", payload.name).then((value) => heard.push(value)),
        step.read("wait for the other branch", () => openWaits(id, 1)).then(() => step.commit("write", () => ({}))),
      ]),
    );
    await until(
      () => rows("SELECT 1 FROM millrace_inbox WHERE instance_id = ?1", instanceId),
      (found) => found.length === 1,
    );
    expect(await statusOf(instanceId)).toBe("running");
    dieAt("signal stored, instance not notified");
    await deliver("probe-events", [say(name, "yes")]);
    await keeperRound();
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(heard).toEqual(["yes"]);
    expect(await rows("SELECT told_at IS NOT NULL AS told FROM millrace_waits WHERE instance_id = ?1", instanceId)).toEqual([{ told: 1 }]);
  });

  it("W28 a lost delivery by the keeper is repeated once, and waits that have their event get no second delivery", async () => {
    const heard: string[] = [];
    const wait = () => runLab(async ({ step, payload }) => heard.push(`${payload.name} ${await hear(step, "answer", payload.name)}`));
    const [one, other] = [await wait(), await wait()];
    await openWaits(one.instanceId, 1);
    await openWaits(other.instanceId, 1);
    dieAt("signal stored, instance not notified");
    await deliver("probe-events", [say(one.name, "yes"), say(other.name, "yes")]);
    const platform = Object.getPrototypeOf(LAB) as Workflow;
    const real = platform.get;
    const lost = vi.spyOn(platform, "get").mockImplementation(async function (this: Workflow, id: string) {
      if (id === other.instanceId) throw new Error("Network connection lost.");
      return real.call(this, id);
    });
    await keeperRound();
    expect(await reaches(one.instanceId, "complete")).toBe("complete");
    lost.mockRestore();
    expect(heard).toEqual([`${one.name} yes`]);
    await keeperRound();
    expect(await reaches(other.instanceId, "complete")).toBe("complete");
    expect(heard).toEqual([`${one.name} yes`, `${other.name} yes`]);
  });

  it("W28 an event that arrived while the run was errored is delivered again when a retry repeats another branch", async () => {
    const { instanceId, name, mend } = await parkedBesideFailure(
      (step, about) => hear(step, "answer", about),
      async (id) => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", id)).length > 0,
    );
    await deliver("probe-events", [say(name, "yes")]);
    await probeEnv.DB.prepare("UPDATE millrace_waits SET told_at = 1 WHERE instance_id = ?1").bind(instanceId).run();
    mend();
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" });
    expect(await outputOf(instanceId)).toBe("yes");
    expect(await rows("SELECT told_at > 1 AS told FROM millrace_waits WHERE instance_id = ?1", instanceId)).toEqual([{ told: 1 }]);
  });

  it("W28 the keeper delivers an event when a retry dies between its restart and the delivery", async () => {
    const { instanceId, name, mend } = await parkedBesideFailure(
      (step, about) => hear(step, "answer", about),
      async (id) => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", id)).length > 0,
    );
    await deliver("probe-events", [say(name, "yes")]);
    mend();
    dieAt("platform run restarted, not recorded");
    await expect(instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" })).rejects.toThrow("Died");
    await probeEnv.DB.prepare("UPDATE millrace_actions SET lease_until = 0 WHERE instance_id = ?1").bind(instanceId).run();
    await keeperRound();
    expect(await outputOf(instanceId)).toBe("yes");
  });

  it("W28 an event between the acceptance of a retry and its restart is delivered after the restart", async () => {
    const { instanceId, name, mend } = await parkedBesideFailure(
      (step, about) => hear(step, "answer", about),
      async (id) => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", id)).length > 0,
    );
    mend();
    dieAt("retry committed, not applied");
    await instances.act(probeEnv, operator, "retry", instanceId, { reason: "mended" }).catch(() => undefined);
    await deliver("probe-events", [say(name, "yes")]);
    await keeperRound();
    expect(await outputOf(instanceId)).toBe("yes");
  });

  it("W29 several waits and concurrent events form pairs, and each event ends one wait", async () => {
    const heard: string[] = [];
    const { instanceId, name } = await runLab(({ step, payload }) =>
      Promise.all(["left", "middle", "right"].map(async (wait) => heard.push(await hear(step, wait, payload.name)))),
    );
    await openWaits(instanceId, 3);
    await deliver("probe-events", [say(name, "1"), say(name, "2")]);
    expect(await openWaits(instanceId, 1)).toHaveLength(1);
    await deliver("probe-events", [say(name, "3"), say(name, "4")]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
    expect(heard.toSorted()).toEqual(["1", "2", expect.stringMatching(/3|4/)]);
  });

  it("T01 a wait accepts no event of another tenant, neither an earlier nor a later one", async () => {
    const name = fresh();
    // The wait exists before the events, so that only the tenant separates them.
    const { instanceId } = await start(name, [
      { do: "wait", name: "of ours", subject: `${name}/ours` },
      { do: "wait", name: "answer", subject: name },
    ]);
    await openWaits(instanceId, 1);
    const theirs = (value: string) => ({ ...say(name, value), tenant_id: "globex" });
    await deliver("probe-events", [theirs("before")]);
    await deliver("probe-events", [say(`${name}/ours`, "go on")]);
    await until(
      () => rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", instanceId),
      (found) => found.length === 2,
    );
    await deliver("probe-events", [theirs("now")]);
    expect(await openWaits(instanceId, 1)).toEqual([{ name: "answer" }]);
    await deliver("probe-events", [say(name, "ours")]);
    expect(await reaches(instanceId, "complete")).toBe("complete");
  });
});
