import { expect, it, onTestFinished, vi } from "vitest";

/** Imports the module again, with the state of a process that has just started. */
const begun = async (process: string): Promise<typeof import("../../../packages/millrace/src/replay/fresh.ts")> =>
  import(/* @vite-ignore */ `../../../packages/millrace/src/replay/fresh.ts?process=${process}`);

it("W25 a run that was created before this process started is never treated as new", async () => {
  const { isFirstReplay } = await begun("one");
  const created = new Date();
  expect(isFirstReplay("of-before", created)).toBe(false);
});

it("W25 a young run that was created after this process started is treated as new in its first replay only", async () => {
  const { isFirstReplay } = await begun("two");
  isFirstReplay("another", new Date());
  await scheduler.wait(5);
  const created = new Date();
  expect(isFirstReplay("young", created)).toBe(true);
  expect(isFirstReplay("young", created)).toBe(false);
  expect(isFirstReplay("unknown", undefined)).toBe(false);
  await scheduler.wait(2100);
  expect(isFirstReplay("older", created)).toBe(false);
});

it("a run that was created after a clock error is treated as new once this process has received the correct time", async () => {
  const { isFirstReplay } = await begun("three");
  const right = Date.now();
  const clock = vi.spyOn(Date, "now").mockReturnValue(right + 3_600_000);
  onTestFinished(() => clock.mockRestore());
  isFirstReplay("clock was ahead", new Date(right + 3_600_000));
  clock.mockReturnValue(right);
  expect(isFirstReplay("of before", new Date(right - 10))).toBe(false);
  clock.mockReturnValue(right + 20);
  expect(isFirstReplay("young", new Date(right + 10))).toBe(true);
  expect(isFirstReplay("young", new Date(right + 10))).toBe(false);
});
