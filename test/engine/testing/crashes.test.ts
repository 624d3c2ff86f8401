import { type CrashPoint, dieAt, failAt, pauseAt } from "millrace/testing";
import { beforeEach, expect, it } from "vitest";

beforeEach(() => {
  globalThis.millraceCrashPoint = undefined;
});

const ways = [
  ["dieAt", dieAt],
  ["failAt", (point: CrashPoint, ids?: string[]) => failAt(point, new Error("away"), ids)],
  ["pauseAt", pauseAt],
] as const;

it.each(ways)("%s refuses a crash point of instances without instance ids", (_, arm) => {
  for (const ids of [undefined, []]) {
    expect(() => arm("W03 effect done, not recorded", ids)).toThrow(
      'Name the instances that you mean: dieAt("W03 effect done, not recorded", [instanceId(tenantId, workflow, key)]).',
    );
  }
  expect(globalThis.millraceCrashPoint).toBeUndefined();
});

it.each(ways)("%s refuses instance ids at a crash point that belongs to no instance", (_, arm) => {
  expect(() => arm("Q03 created, not acknowledged", ["an-id"])).toThrow("Leave out the ids of instances.");
});

it.each(ways)("%s refuses an unknown crash point, and names the most similar one", (_, arm) => {
  expect(() => arm("W03 effect done, not recordet" as CrashPoint, ["an-id"])).toThrow('Did you mean "W03 effect done, not recorded"?');
  expect(() => arm("somewhere" as CrashPoint)).toThrow("There are: W01 claimed, effect not started; ");
});

it("dieAt ends one instance, once, at its crash point", async () => {
  const death = dieAt("W06 about to record", ["mine"]);
  const at = async (point: CrashPoint, id?: string) => globalThis.millraceCrashPoint?.(point, id);
  await at("W06 about to record", "another");
  await at("W05 recorded, step result lost", "mine");
  expect(death.died()).toBe(false);
  await expect(at("W06 about to record", "mine")).rejects.toThrow("Died at W06 about to record.");
  await at("W06 about to record", "mine");
  expect(death.died()).toBe(true);
});
