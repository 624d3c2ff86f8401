import { expect, it } from "vitest";
import { kindOf } from "../../packages/millrace/console/screens/instance/step.ts";

const step = { type: "do" as const, own: null, mode: "platform" as const, kept: false, event_type: null, effects: [] };
const wait = { ...step, type: "waitForEvent" as const };

it("a step shows its kind next to its name, and a step of the engine itself shows its purpose", () => {
  expect(kindOf(step)).toBe("");
  expect(kindOf({ ...step, mode: "inline", kept: true, effects: [{ class: "keyed" }] })).toBe("keyed, inline, kept from an earlier run");
  expect(kindOf({ ...step, type: "sleep" })).toBe("sleep");
  expect(kindOf({ ...wait, own: { part: "signal" }, event_type: "pay.paid" })).toBe("wait for pay.paid");
  expect(kindOf({ ...wait, own: { part: "answer" } })).toBe("wait for an answer");
  expect(kindOf({ ...wait, own: { part: "in_doubt" } })).toBe("wait for an operator");
  expect(kindOf({ ...step, own: { part: "after_pause" } })).toBe("after the operator's decision");
  expect(kindOf({ ...step, own: { part: "time_over" } })).toBe("timeout check");
});
