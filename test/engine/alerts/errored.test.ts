import { MillraceError } from "millrace";
import { keeperOf } from "millrace/worker";
import { expect, it } from "vitest";
import { raiseAlerts } from "../../../packages/millrace/src/alerts/raise.ts";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { app } from "../../probe/worker.ts";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { fresh, probeEnv, reaches, until } from "../harness.ts";
import { calmly, pass, receiver, saidIn } from "./raising.ts";

const MINUTE = 60_000;

calmly();

/** The keeper's gauge of errored instances of the lab. */
async function errored(): Promise<number> {
  await keeperOf(probeEnv).readVitals();
  const { samples } = await keeperOf(probeEnv).vitals();
  return samples.find(({ name, labels }) => name === "instances_errored_open" && labels.workflow === "lab")?.value ?? 0;
}

it("an instance that stays errored is notified after 15 minutes and then every 4 hours, until an operator closes it", async () => {
  const before = await errored();
  const { requests } = await receiver();
  // Errored instances of other tests remain, so the test reads differences.
  const round = async () => {
    const gauges = [{ name: "instances_errored_open", labels: { workflow: "lab" }, value: (await errored()) - before }];
    await raiseAlerts(probeEnv, { rules: ALERT_RULES, catalog: app, gauges });
  };
  const told = async (count: number) => (await requests(count)).map(saidIn).map(({ type, data }) => `${type} ${data.rule}`);
  const caller = await asking();
  const code = fresh("left_code").replaceAll("-", "_");
  const id = await ask(caller, async () => Promise.reject(new MillraceError(code, "It fails.")));
  await reaches(id, "errored");
  await round();
  expect(await told(1)).toEqual(["alert.firing instances_errored"]);

  // The failure is old, and the instance still waits for an operator.
  await pass(14 * MINUTE);
  await round();
  expect(await told(1)).toHaveLength(1);
  await pass(2 * MINUTE);
  await round();
  expect((await told(3)).slice(1).toSorted()).toEqual(["alert.firing errored_depth", "alert.resolved instances_errored"]);
  const standing = (await requests(3)).map(saidIn).find(({ data }) => data.rule === "errored_depth");
  expect(standing?.data).toMatchObject({ labels: { workflow: "lab" }, value: 1, count: null });
  await pass(4 * 60 * MINUTE);
  await round();
  expect((await told(4)).slice(3)).toEqual(["alert.repeated errored_depth"]);

  const closed = await until(
    () => caller.post(`/v1/instances/${id}/close`, { reason: "Nobody needs it." }),
    ({ status }) => status < 300,
  );
  expect(closed.status).toBeLessThan(300);
  await round();
  await pass(3 * MINUTE);
  await round();
  expect((await told(5)).slice(4)).toEqual(["alert.resolved errored_depth"]);
});
