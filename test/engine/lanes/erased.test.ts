import { lanes } from "millrace/operate";
import { expect, it } from "vitest";
import { blocking } from "../../probe/lanes.ts";
import { blocked } from "../../probe/turns.ts";
import { rows, until } from "../harness.ts";
import { LabLane, laneEnv } from "./lab.ts";
import { TurnKey } from "./turning.ts";

it("a lane that is erased while its handler runs ignores the handler's result, and new messages wait for its end", async () => {
  let [released, running, most] = [false, 0, 0];
  const lane = new LabLane(blocking, async () => {
    most = Math.max(most, ++running);
    while (!released) await scheduler.wait(5);
    running--;
  });
  await lane.send(0, 1);
  await lane.client.send(lane.message(2).body, { idempotencyKey: "a" });
  expect(await lane.object.erase()).toBe(true);
  expect((await lane.client.send(lane.message(3).body, { idempotencyKey: "a" })).duplicate).toBe(false);
  expect((await lane.object.look()).depth).toBe(1);
  released = true;
  await lane.is("empty");
  expect(lane.calls).toEqual([[0, 1], [3]]);
  expect(most).toBe(1);
});

it("a paused lane is listed, and an erased lane is not", async () => {
  const key = new TurnKey(blocked);
  const object = lanes.objectOf(laneEnv, { ...key.name, tenant: "acme" });
  await object.pause();
  const noted = () => rows("SELECT 1 FROM millrace_lanes WHERE tenant_id = 'acme' AND key = ?1", key.key);
  expect(await until(noted, (found) => found.length > 0)).toHaveLength(1);
  expect(await object.erase()).toBe(true);
  expect(await noted()).toEqual([]);
});
