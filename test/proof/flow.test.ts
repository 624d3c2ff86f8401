import { expect, it } from "vitest";
import { LIMITS, type Limits } from "./flow.ts";
import { type Member, wrongInFlow } from "./flow-judge.ts";

/** A run that was accepted at `at`, got its slot 100 ms later, and had effects from 200 to 800 ms. */
function run(id: string, at: number, more: Partial<Member> = {}): Member {
  return {
    id,
    acceptedAt: at,
    dueAt: null,
    replacedBy: undefined,
    orderedAt: Number.POSITIVE_INFINITY,
    slots: [{ at: at + 100, turn: at, status: "accepted", held: 1 }],
    statuses: [{ at: at + 1000, to: "complete" }],
    calls: [at + 200, at + 800],
    commits: 0,
    ...more,
  };
}
const slot = { at: 1000, turn: 1000, status: "queued", held: 1 };
const wrong = (limits: Limits, ...members: Member[]) => wrongInFlow(limits, members);
const { one, two, throttled, debounced } = LIMITS;

it("the judge of flow control accepts runs within the limit, one after another", () => {
  expect(wrong(one, run("a", 0), run("b", 10, { slots: [slot], statuses: [], calls: [1200, 1500] }))).toEqual([]);
  expect(wrong(two, run("a", 0), run("b", 10, { slots: [{ ...slot, at: 110, held: 2 }] }))).toEqual([]);
});

it("the judge of flow control reports a slot beyond the limit, out of order, or absent, unless an operator started the run", () => {
  const beyond = { slots: [{ ...slot, held: 2 }], calls: [1200] };
  expect(wrong(one, run("a", 10, beyond))).toEqual(["duplicate: a got a slot, and 2 runs had one of 1"]);
  expect(wrong(one, run("a", 10, { ...beyond, orderedAt: 950 }))).toEqual([]);
  expect(wrong(one, run("a", 10, { slots: [{ ...slot, status: "running" }], calls: [1200] }))).toHaveLength(1);
  const late = run("a", 10, { slots: [{ ...slot, at: 3100, turn: 10 }], calls: [] });
  expect(wrong(one, late, run("b", 20, { slots: [{ ...slot, turn: 20 }], statuses: [], calls: [] }))).toEqual([
    "invented: b got its slot before a",
  ]);
  expect(wrong(one, run("a", 10, { calls: [50] }))).toEqual(["invented: a had an effect before it got a slot"]);
});

it("the judge of flow control reports runs with effects at the same time", () => {
  expect(wrong(one, run("a", 0), run("b", 500))).toHaveLength(1);
  expect(wrong(one, run("a", 0), run("b", 500, { orderedAt: 700 }))).toEqual([]);
  expect(wrong(two, run("a", 0), run("b", 500))).toEqual([]);
});

it("the judge of flow control reports a slot that remains free while a run waits", () => {
  const waiting = run("b", 10, { slots: [{ ...slot, at: 3000 }], statuses: [], calls: [3100] });
  expect(wrong(one, run("a", 0), waiting)).toHaveLength(1);
  expect(wrong(one, run("a", 0, { statuses: [{ at: 3000, to: "errored" }] }), waiting)).toEqual([]);
});

it("the judge of flow control reports a start before its time, and starts within one period", () => {
  expect(wrong(throttled, run("a", 0, { dueAt: 0 }), run("b", 0, { dueAt: 1500, calls: [2000] }))).toEqual([]);
  expect(wrong(throttled, run("a", 0, { dueAt: 0 }), run("b", 0, { dueAt: 1400, calls: [2000] }))).toHaveLength(1);
  expect(wrong(throttled, run("a", 0, { dueAt: 0 }), run("b", 0, { dueAt: 1500 }))).toEqual([
    "invented: b started 1300 ms before its time",
  ]);
});

it("the judge of flow control requires that only the next command replaces a waiting command, and that a replaced command does nothing", () => {
  const nothing = { slots: [], calls: [], dueAt: 1500 };
  const last = run("b", 500, { dueAt: 2000, slots: [{ ...slot, at: 2100 }], calls: [2200] });
  expect(wrong(debounced, run("a", 0, { ...nothing, replacedBy: "b" }), last)).toEqual([]);
  expect(wrong(debounced, run("a", 0, { ...nothing, replacedBy: "c" }), last)).toHaveLength(1);
  expect(wrong(debounced, run("a", 0, { ...nothing, replacedBy: "b", calls: [600] }), last)).toEqual([
    "duplicate: a was replaced, and had 1 effects",
  ]);
  expect(wrong(debounced, run("a", 0, { ...nothing, slots: [{ ...slot, at: 1550 }], calls: [1700] }), last)).toHaveLength(1);
  expect(wrong(debounced, run("a", 0, { ...nothing, replacedBy: "b" }))).toHaveLength(1);
  expect(wrong(one, run("a", 0, { ...nothing, dueAt: null, replacedBy: "b" }))).toEqual(["lost: a was replaced"]);
});
