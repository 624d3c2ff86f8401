import { MillraceError } from "millrace";
import { expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { labs } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import type { Received } from "../../systems/webhooks/receiver.ts";
import { deliver, fresh, probeEnv, rows, until } from "../harness.ts";
import { alerts, calmly, pass, receiver, round, saidIn } from "./raising.ts";

const MINUTE = 60_000;

calmly();

async function failing(count: number, code: string): Promise<void> {
  const name = fresh("storm");
  const requests = Array.from({ length: count }, (_, index) => ({ type: "lab.requested", payload: { name: `${name}-${index}` } }));
  for (const { payload } of requests) {
    labs.set(payload.name, async () => {
      throw new MillraceError(code, "It fails.");
    });
  }
  for (let from = 0; from < count; from += 100) {
    await acceptCommands(probeEnv, app, { tenantId: "acme", source: "test" }, requests.slice(from, from + 100));
  }
  await until(
    () => rows("SELECT 1 FROM millrace_instances WHERE status = 'errored' AND error->>'code' = ?1", code),
    (found) => found.length >= count,
  );
}

it("a storm of failures raises few alerts; each is notified once although its receiver fails twice, and recovered alerts are resolved", async () => {
  const { requests } = await receiver({ treatments: [{ status: 500, times: 2 }] });
  const code = fresh("storm_code").replaceAll("-", "_");
  await failing(200, code);
  await deliver(
    "probe-events",
    Array.from({ length: 50 }, (_, index) => ({ poison: index })),
  );
  await round();

  // There are two alerts. The receiver has refused two attempts.
  const seen = await requests(4);
  expect(seen.length).toBe(4);
  expect(seen.every(({ verified }) => verified[0])).toBe(true);
  const taken = seen.filter(({ answered }) => answered === 204);
  expect(new Set(seen.map(({ id }) => id)).size).toBe(2);
  expect(new Set(taken.map(({ id }) => id)).size).toBe(2);
  const said = taken.map(saidIn).toSorted((one, other) => one.data.rule.localeCompare(other.data.rule));
  expect(said).toMatchObject([
    { type: "alert.firing", data: { rule: "dead_letter_arrived", labels: { queue: "probe-events" }, count: 50 } },
    { type: "alert.firing", data: { rule: "instances_errored", labels: { workflow: "lab", code }, count: 200 } },
  ]);
  expect(said.map(({ data }) => data.examples.length)).toEqual([3, 3]);

  // The failure continues. No second notification before four hours. Remaining dead letters raise another alert after 15
  // minutes.
  for (const minutes of [1, 237]) {
    await pass(minutes * MINUTE);
    await deliver("probe-events", [{ poison: `after ${minutes} minutes` }]);
    await round();
  }
  expect(await alerts("rule = 'dead_letter_arrived'")).toMatchObject([{ state: "firing", count: 52 }]);
  expect(told(await requests(5), 4)).toEqual(["alert.firing dlq_depth null"]);
  await pass(3 * MINUTE);
  await deliver("probe-events", [{ poison: "late" }]);
  await round();
  expect(told(await requests(7), 5)).toEqual(["alert.repeated dead_letter_arrived 53", "alert.resolved instances_errored 200"]);

  await pass(6 * MINUTE);
  await round();
  expect(await requests()).toHaveLength(7);
  await pass(3 * MINUTE);
  await round();
  await round();
  expect(told(await requests(8), 7)).toEqual(["alert.resolved dead_letter_arrived 53"]);
  expect(await alerts("state <> 'resolved' AND rule <> 'dlq_depth'")).toEqual([]);
});

/** The texts of the notifications since this number of requests. */
function told(all: readonly Received[], since: number): string[] {
  const said = all.slice(since).map(saidIn);
  return said.map(({ type, data }) => `${type} ${data.rule} ${data.count}`).toSorted();
}
