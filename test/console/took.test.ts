import { expect, it } from "vitest";
import { tookOf } from "../../packages/millrace/console/screens/instance/step.ts";

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const wait = (from: number, to: number | null) => ({
  type: "waitForEvent" as const,
  started_at: at(from),
  ended_at: to === null ? null : at(to),
});

/** An instance that was accepted at second 0 and ended at second 20, with its second run begun at second 10. */
function took(...waits: ReturnType<typeof wait>[]) {
  return tookOf({ accepted_at: at(0), updated_at: at(20) }, waits, [{ begunAt: at(10) }]);
}

it("the waiting time of an instance is at most its duration: parallel waits count once, and waits of an earlier run are excluded", () => {
  expect(took(wait(12, 16), wait(14, 18))).toEqual({ took: 10_000, waited: 6000 });
  expect(took(wait(3, null), wait(5, 8), wait(11, null))).toEqual({ took: 10_000, waited: 9000 });
});
