import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { ProbeSignal } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, keeperRound, operator, probeEnv, reaches, rows } from "../harness.ts";
import { outputOf } from "../lab.ts";
import { comes, kept, play, scene } from "./scene.ts";

const signal = (id: string, about: string, key: string, value = "sent") =>
  instances.act(
    probeEnv,
    operator,
    "signal",
    id,
    { type: "probe.signal", payload: { about, value }, reason: "they called" },
    { catalog: app, key },
  );

/** A run with two waits. */
async function waits(go = true) {
  const its = scene();
  its.state.go = go;
  const id = await play(its, async (step) => {
    await its.act(step, "a", "natural", "slow");
    const first = await step.waitFor("first", ProbeSignal, { subject: its.name });
    const second = await step.waitFor("second", ProbeSignal, { subject: its.name });
    return [first.value, second.value];
  });
  if (go) await reaches(id, "waiting");
  return { its, id };
}

it("W24 a signal is accepted by its target instance, once for any number of sends, and by no other", async () => {
  const { its, id } = await waits();
  const other = await waits();
  const asked = { type: "probe.signal", payload: { about: its.name, value: "x" } };
  expect(await instances.plan(probeEnv, operator, "signal", id, asked, { catalog: app })).toMatchObject({
    refused: null,
    effects: [{ step: "first", verdict: "runs" }],
  });
  const sent = await Promise.all([1, 2, 3].map(() => signal(id, its.name, "key", "one")));
  expect(sent.filter(({ replayed }) => !replayed)).toHaveLength(1);
  await comes(async () => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", id)).length === 1);
  expect(sent.map(({ step }) => step)).toEqual(["first", "first", "first"]);
  expect(await signal(id, its.name, "key", "one")).toMatchObject({ replayed: true, step: "first" });
  await expect(signal(id, its.name, "key", "another")).rejects.toMatchObject({ code: "idempotency_key_reused" });
  expect(await signal(id, its.name, "key 2", "two")).toMatchObject({ replayed: false, step: "second" });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(await outputOf(id)).toEqual(["one", "two"]);
  expect(await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND signal_id IS NOT NULL", other.id)).toEqual([]);
  const audit = await rows<{ result: string }>("SELECT result FROM millrace_actions WHERE instance_id = ?1 AND verb = 'signal'", id);
  expect(audit.filter(({ result }) => result === "applied")).toHaveLength(2);
});

it("W24 a signal is accepted by the wait for its subject, also where another wait began later", async () => {
  const its = scene();
  const about = (what: string) => `${its.name}/${what}`;
  const id = await play(its, async (step) => {
    const first = step.waitFor("first", ProbeSignal, { subject: about("a") });
    await scheduler.wait(300);
    const second = step.waitFor("second", ProbeSignal, { subject: about("b") });
    return (await Promise.all([first, second])).map(({ value }) => value);
  });
  await comes(async () => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", id)).length === 2);
  expect(await signal(id, about("a"), "1", "about a")).toMatchObject({ step: "first" });
  expect(await signal(id, about("b"), "2", "about b")).toMatchObject({ step: "second" });
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(await outputOf(id)).toEqual(["about a", "about b"]);
});

it("W24 a signal that arrives before the wait for its subject is stored for that wait", async () => {
  const its = scene();
  const about = (what: string) => `${its.name}/${what}`;
  const id = await play(its, async (step) => {
    await its.act(step, "a", "natural", "slow");
    const first = await step.waitFor("first", ProbeSignal, { subject: about("a") });
    const second = await step.waitFor("second", ProbeSignal, { subject: about("b") });
    return [first.value, second.value];
  });
  await comes(() => its.log.includes("a"));
  await signal(id, about("b"), "1", "about b");
  its.state.go = true;
  await comes(async () => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1", id)).length === 1);
  await signal(id, about("a"), "2", "about a");
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(await outputOf(id)).toEqual(["about a", "about b"]);
});

it("W24 a signal that arrives before the instance waits is stored until it waits", async () => {
  const { its, id } = await waits(false);
  await comes(() => its.log.includes("a"));
  expect(await signal(id, its.name, "early", "early")).toMatchObject({ replayed: false, step: null });
  its.state.go = true;
  await comes(async () => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", id)).length === 1);
  await signal(id, its.name, "late", "late");
  expect(await kept(id, "complete", "errored")).toBe("complete");
  expect(await outputOf(id)).toEqual(["early", "late"]);
});

it("W24 a signal that was stored and not delivered is delivered by the keeper", async () => {
  const { its, id } = await waits();
  dieAt("operator signal stored, not sent", id);
  await expect(signal(id, its.name, "one", "one")).rejects.toThrow("Died");
  await comes(async () => {
    await keeperRound();
    return (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", id)).length === 1;
  });
  await signal(id, its.name, "two", "two");
  expect(await kept(id, "complete", "errored")).toBe("complete");
});

it("a signal is refused without a matching wait, for another subject or type, and for an ended instance", async () => {
  const { its, id } = await waits();
  const send = (type: string, payload: unknown) =>
    instances.act(probeEnv, operator, "signal", id, { type, payload, reason: "they called" }, { catalog: app, key: crypto.randomUUID() });
  await expect(send("probe.unknown", {})).rejects.toMatchObject({ code: "unknown_message_type" });
  await expect(send("probe.done", { name: "x", step: "y" })).rejects.toMatchObject({ code: "unknown_message_type" });
  await expect(send("probe.signal", { about: 1 })).rejects.toMatchObject({ code: "invalid_payload" });
  await expect(send("probe.signal", { about: "another", value: "x" })).rejects.toMatchObject({ code: "invalid_payload" });
  await signal(id, its.name, "1");
  await comes(async () => (await rows("SELECT 1 FROM millrace_waits WHERE instance_id = ?1 AND name = 'second'", id)).length === 1);
  await signal(id, its.name, "2");
  expect(await kept(id, "complete", "errored")).toBe("complete");
  await expect(signal(id, its.name, "3")).rejects.toMatchObject({ code: "invalid_transition", detail: { from: "complete" } });
  await expect(signal("0".repeat(32), its.name, "4")).rejects.toMatchObject({ code: "instance_not_found" });
});
