import { instances } from "millrace/operate";
import { keeperOf } from "millrace/worker";
import { expect, it, onTestFinished } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { deployed, type LabCall } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import { fresh, keeperRound, operator, probeEnv, reaches } from "../harness.ts";
import { runLab } from "../lab.ts";
import { hear } from "../signals/waiting.ts";
import { alerts, calmly, pass, run } from "./raising.ts";

calmly();

const MINUTE = 60_000;
/** A version that no other test deploys. */
const VERSION = 41;

function deploy(version: number, previous: typeof deployed.previous = {}): void {
  Object.assign(deployed, { version, previous });
}

/** The alerts of this rule, without the alerts that other files of the same worker have raised. */
const own = async () => (await alerts()).filter(({ rule }) => rule === "version_missing");

async function round(): Promise<number | undefined> {
  await keeperOf(probeEnv).readVitals();
  const { samples } = await keeperOf(probeEnv).vitals();
  const gauges = samples.filter(({ name, labels }) => name === "instances_without_version" && labels.version === String(VERSION));
  await raiseAlerts(probeEnv, { rules: ALERT_RULES.filter(({ name }) => name === "version_missing"), catalog: app, gauges });
  return gauges[0]?.value;
}

it("open instances of a version that a deployment lacks raise an alert, which is resolved when the last one has ended", async () => {
  onTestFinished(() => deploy(1));
  const code = async ({ step }: LabCall) => hear(step, "paid", "nobody");
  deploy(VERSION);
  const runs = [await runLab(code, { name: fresh("version") }), await runLab(code, { name: fresh("version") })];
  const ids = JSON.stringify(runs.map(({ instanceId }) => instanceId));
  for (const { instanceId } of runs) await reaches(instanceId, "waiting");
  await run(`UPDATE millrace_instances SET check_at = 1 WHERE id IN (SELECT value FROM json_each(?1))`, ids);
  await keeperRound();
  expect(await round()).toBeUndefined();

  deploy(1);
  // The instances have made no replay since the deployment.
  expect(await round()).toBe(2);
  expect(await own()).toMatchObject([{ rule: "version_missing", state: "pending" }]);
  await pass(5 * MINUTE);
  await round();
  expect(await own()).toMatchObject([
    { state: "firing", severity: "warning", value: 2, labels: JSON.stringify({ version: String(VERSION), workflow: "lab" }) },
  ]);

  deploy(VERSION + 1, { [VERSION]: code });
  expect(await round()).toBeUndefined();
  deploy(VERSION + 1);
  expect(await round()).toBe(2);
  deploy(VERSION + 1, { [VERSION]: code });
  for (const { instanceId } of runs) {
    await instances.act(probeEnv, operator, "cancel", instanceId, { reason: "called off" });
    await reaches(instanceId, "terminated");
  }
  deploy(1);
  expect(await round()).toBeUndefined();
  await pass(2 * MINUTE);
  await round();
  expect(await own()).toMatchObject([{ state: "resolved" }]);
});
