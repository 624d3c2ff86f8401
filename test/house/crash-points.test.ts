import { expect, it } from "vitest";
import { dieAt, failAt, pauseAt } from "../../packages/millrace/src/testing/crashes.ts";

it.each([
  ["dieAt", () => dieAt("W03 effect done, not recorded")],
  ["failAt", () => failAt("W03 effect done, not recorded", new Error("away"))],
  ["pauseAt", () => pauseAt("W03 effect done, not recorded")],
])("the crash point %s throws if the bundle has no crash points, instead of having no effect", (_, arm) => {
  expect(arm).toThrow('define: { MILLRACE_CRASH_POINTS: "true" } to its project in vitest.config.ts');
  expect(globalThis.millraceCrashPoint).toBeUndefined();
});
