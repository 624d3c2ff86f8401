import { expect, it, vi } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { app } from "../../probe/worker.ts";
import { probeEnv } from "../harness.ts";
import { alerts, calmly, receiver, run, saidIn } from "./raising.ts";

calmly();

const ID = "5".padEnd(32, "0");
const look = (value: number, name = "effects_in_doubt") =>
  raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges: value > 0 ? [{ name, labels: {}, value }] : [] });

/** A firing alert about a queue, with this text in one column of its row. */
async function spoilt(column: string, value: string): Promise<void> {
  await run(
    `INSERT INTO millrace_alerts (id, rule, labels, state, severity, value, examples, since, fired_at, notice_at, notice_severity, last_at, updated_at, version)
     VALUES (?1, 'dlq_depth', '{"queue":"q"}', 'firing', 'warning', 1, '[]', ?2, ?2, ?2, 'warning', ?2, ?2, 1)`,
    ID,
    Date.now(),
  );
  await run(`UPDATE millrace_alerts SET ${column} = ${value} WHERE id = ?1`, ID);
}

it.each([
  ["labels", "'no JSON'"],
  ["labels", "'null'"],
  ["labels", "'[1]'"],
  ["examples", "'no JSON'"],
  ["examples", "'5'"],
  ["value", "9e999"],
  ["last_at", "9000000000000000000"],
  ["version", "9223372036854775806"],
])("an alert row with %s = %s is removed and logged; its alert begins again, and no other alert is blocked", async (column, value) => {
  const { requests } = await receiver();
  const failed = vi.spyOn(console, "error");
  await spoilt(column, value);
  expect((await look(3)).did).toBe(1);
  expect((await requests(1)).map((one) => saidIn(one).data.rule)).toEqual(["effects_in_doubt"]);
  expect((await alerts()).map(({ rule }) => rule)).toEqual(["effects_in_doubt"]);
  const lines = failed.mock.calls.map(([line]) => JSON.parse(String(line))).filter(({ log }) => log === "alert");
  expect(lines).toEqual([{ log: "alert", level: "error", change: "spoiled", alert_id: ID, rule: "dlq_depth" }]);
});

it("a gauge with the value Infinity exceeds its bound, and raises an alert", async () => {
  const { requests } = await receiver();
  expect((await look(Number.POSITIVE_INFINITY)).did).toBe(1);
  expect((await requests(1)).map((one) => saidIn(one).type)).toEqual(["alert.firing"]);
});
