import { expect, it } from "vitest";
import { raiseAlerts } from "../../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../../packages/millrace/src/alerts/rules.ts";
import { readCounted } from "../../../../packages/millrace/src/observe/metrics/folding.ts";
import { readGauges } from "../../../../packages/millrace/src/observe/metrics/vitals.ts";
import { app } from "../../../probe/worker.ts";
import { alerts, calmly, pass, run } from "../../alerts/raising.ts";
import { asking } from "../../asking.ts";
import { ask } from "../../callbacks/heard.ts";
import { probeEnv, reaches, rows, until } from "../../harness.ts";

calmly();

const MINUTE = 60_000;
const NAMES = ["approvals_waiting", "approvals_pressing", "approvals_oldest_seconds"];
const gauges = async () =>
  (await readGauges(probeEnv, [], await readCounted(probeEnv, Date.now()))).filter(({ name }) => NAMES.includes(name));
const gauged = async (name: string) => (await gauges()).find((one) => one.name === name)?.value ?? 0;
const round = async () => raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges: await gauges() });

it("an open question to an operator has a gauge, an alert after 15 minutes, and a critical alert shortly before its timeout", async () => {
  // Open questions of other tests are decided first.
  await run("UPDATE millrace_approvals SET state = 'rejected', decided_at = 1 WHERE state = 'pending'");
  const caller = await asking();
  const question = async ({ step }: Parameters<Parameters<typeof ask>[1]>[0]) =>
    step.approve("may it", { question: "May it?", timeout: "1 day" });
  const id = await ask(caller, question);
  const gone = await ask(caller, question);
  await until(
    () => rows("SELECT 1 FROM millrace_approvals WHERE instance_id IN (?1, ?2)", id, gone),
    (found) => found.length === 2,
  );
  expect(await gauged("approvals_waiting")).toBe(2);
  expect((await caller.post(`/v1/instances/${gone}/cancel`, { reason: "called off" })).status).toBeLessThan(300);
  await reaches(gone, "terminated");
  expect([await gauged("approvals_waiting"), await gauged("approvals_pressing")]).toEqual([1, 0]);

  await round();
  await pass(15 * MINUTE);
  await round();
  expect(await alerts("rule LIKE 'approvals_%' AND state = 'firing'")).toMatchObject([{ rule: "approvals_waiting", severity: "warning" }]);
  const hours = 23.5 * 60 * MINUTE;
  await run("UPDATE millrace_approvals SET asked_at = asked_at - ?2, due_at = due_at - ?2 WHERE instance_id = ?1", id, hours);
  expect(await gauged("approvals_oldest_seconds")).toBeGreaterThanOrEqual(hours / 1000);
  await round();
  expect(await alerts("rule = 'approvals_pressing'")).toMatchObject([{ state: "firing", severity: "critical" }]);

  const [asked] = (await caller.get(`/v1/approvals?instance=${id}`)).body.items;
  expect((await caller.post(`/v1/approvals/${asked.id}/approve`, { reason: "Yes." })).status).toBeLessThan(300);
  expect([await gauged("approvals_waiting"), await gauged("approvals_pressing")]).toEqual([0, 0]);
});

it("a question with a timeout of half an hour raises no alert in its first half", async () => {
  await run("UPDATE millrace_approvals SET state = 'rejected', decided_at = 1 WHERE state = 'pending'");
  const id = await ask(await asking(), async ({ step }) => step.approve("may it", { question: "May it?", timeout: "30 minutes" }));
  await until(
    () => rows("SELECT 1 FROM millrace_approvals WHERE instance_id = ?1", id),
    (found) => found.length === 1,
  );
  expect([await gauged("approvals_waiting"), await gauged("approvals_pressing")]).toEqual([1, 0]);
  await run("UPDATE millrace_approvals SET asked_at = asked_at - ?2, due_at = due_at - ?2 WHERE instance_id = ?1", id, 16 * MINUTE);
  expect(await gauged("approvals_pressing")).toBe(1);
});
