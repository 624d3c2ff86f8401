import { instances } from "millrace/operate";
import { expect, it, onTestFinished, vi } from "vitest";
import { deliver, operator, probeEnv, rows, until } from "../harness.ts";
import { platformReaches, runLab } from "../lab.ts";
import { hear, openWaits, say } from "./waiting.ts";

const DAY_MS = 86_400_000;

it("an instance, its steps and the log show each wait by its name in the code until the event has arrived", async () => {
  const log = vi.spyOn(console, "log");
  onTestFinished(() => log.mockRestore());
  const { instanceId, name } = await runLab(async ({ step, payload }) => {
    const asked = step.approve("approve refund", { question: "Really?", timeout: "2 days" });
    return Promise.all([asked, hear(step, "wait for word", payload.name, DAY_MS)]);
  });
  const shown = () => instances.get(probeEnv, operator, instanceId);
  await openWaits(instanceId, 1);
  await until(shown, ({ waiting_for }) => waiting_for.length === 2);
  const [event, question] = (await shown()).waiting_for;
  expect(event).toMatchObject({ step: "wait for word", event_type: "probe.signal", subject: name, approval_id: null });
  expect(question).toMatchObject({ step: "approve refund", event_type: null, subject: null });
  const [approval] = await rows<{ id: string; due_at: number }>(
    "SELECT id, due_at FROM millrace_approvals WHERE instance_id = ?1",
    instanceId,
  );
  expect(question).toMatchObject({ approval_id: approval?.id, until: new Date(approval?.due_at ?? 0).toISOString() });
  const [wait] = await rows<{ since_at: number }>("SELECT since_at FROM millrace_waits WHERE instance_id = ?1", instanceId);
  expect(Date.parse(event?.until ?? "")).toBe(Number(wait?.since_at) + DAY_MS);
  const listed = await instances.list(probeEnv, operator, { status: "waiting", limit: 200 });
  expect(listed.items.find(({ id }) => id === instanceId)?.waiting_for).toEqual([event, question]);

  const waits = (await instances.steps(probeEnv, operator, await shown())).steps.filter(({ type }) => type === "waitForEvent");
  expect(waits).toContainEqual(
    expect.objectContaining({ name: "wait for word", state: "waiting", event_type: "probe.signal", subject: name, approval_id: null }),
  );
  expect(waits).toContainEqual(
    expect.objectContaining({ name: "approve refund", state: "waiting", event_type: null, subject: null, approval_id: approval?.id }),
  );

  const said = log.mock.calls
    .map(([line]) => String(line))
    .filter((line) => line.startsWith('{"log":"waiting"') && line.includes(instanceId));
  expect(said.map((line) => JSON.parse(line)).toSorted((a, b) => a.step.localeCompare(b.step))).toMatchObject([
    { workflow: "lab", step: "approve refund", approval_id: approval?.id, until: expect.stringMatching(/Z$/) },
    { workflow: "lab", step: "wait for word", event_type: "probe.signal", about: name, open: true, until: expect.any(String) },
  ]);

  await deliver("probe-events", [say(name, "yes")]);
  expect(
    await until(
      async () => (await shown()).waiting_for,
      (left) => left.length === 1,
    ),
  ).toEqual([question]);
});

it("an ended run shows no waits, also when it ended without the event", async () => {
  const { instanceId } = await runLab(async ({ step, payload, instanceId: id }) => {
    const raced = hear(step, "raced", payload.name);
    await Promise.race([raced, step.read("faster", () => openWaits(id, 1).then(() => "won"))]);
  });
  expect(await platformReaches(instanceId, "complete", "errored")).toBe("complete");
  await openWaits(instanceId, 1);
  expect(
    await until(
      () => instances.get(probeEnv, operator, instanceId),
      ({ status }) => status === "complete",
    ),
  ).toMatchObject({ waiting_for: [] });
});
