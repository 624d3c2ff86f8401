import { expect, it } from "vitest";
import { labelOf, stepOf } from "../../packages/millrace/console/screens/instance/step.ts";

it("an item of a map step is requested by its step and its key, as its name contains both", () => {
  expect(stepOf("pay")).toEqual({ step: "pay" });
  for (const named of [
    { step: "pay", item: "a" },
    { step: "undo pay", item: "a/b [c]" },
  ]) {
    expect(stepOf(labelOf(named))).toEqual(named);
  }
});
