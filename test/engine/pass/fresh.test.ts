import { expect, it, onTestFinished, vi } from "vitest";

/** The module as a process has it that has just begun. */
const begun = async (process: string): Promise<typeof import("../../../packages/millrace/src/pass/fresh.ts")> =>
  import(/* @vite-ignore */ `../../../packages/millrace/src/pass/fresh.ts?process=${process}`);

it("W25 a run that was created before this process began is never treated as one without a replay: the process before may have run it", async () => {
  const { isFirstPass } = await begun("one");
  const created = new Date();
  expect(isFirstPass("of-before", created)).toBe(false);
});

it("W25 a run created since is, once: and not when it is no longer young", async () => {
  const { isFirstPass } = await begun("two");
  isFirstPass("another", new Date());
  await scheduler.wait(5);
  const created = new Date();
  expect(isFirstPass("young", created)).toBe(true);
  expect(isFirstPass("young", created)).toBe(false);
  expect(isFirstPass("unknown", undefined)).toBe(false);
  await scheduler.wait(2100);
  expect(isFirstPass("older", created)).toBe(false);
});

it("a run created after a clock that was ahead is too, once this process has been called by the right time: and an earlier run is not", async () => {
  const { isFirstPass } = await begun("three");
  const right = Date.now();
  const clock = vi.spyOn(Date, "now").mockReturnValue(right + 3_600_000);
  onTestFinished(() => clock.mockRestore());
  isFirstPass("while it was ahead", new Date(right + 3_600_000));
  clock.mockReturnValue(right);
  expect(isFirstPass("of before", new Date(right - 10))).toBe(false);
  clock.mockReturnValue(right + 20);
  expect(isFirstPass("young", new Date(right + 10))).toBe(true);
  expect(isFirstPass("young", new Date(right + 10))).toBe(false);
});
