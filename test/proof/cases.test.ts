import { it } from "vitest";
import { asked } from "./asked.ts";
import { prove } from "./in-process.ts";

// Findings of random runs, or possible ones: each failure is added here as random.test.ts prints it.

it("a program of every effect class, without faults, keeps the guarantees when it is undone and repeated", () =>
  prove({
    program: {
      do: "seq",
      parts: [
        { do: "all", parts: [{ do: "keyed", emits: true }, { do: "lookup" }, { do: "once", upstream: { is: "drops", times: 1 } }] },
        { do: "try", part: { do: "natural", upstream: { is: "never", times: 1 } }, next: { do: "commit", emits: true } },
        {
          do: "race",
          parts: [
            { do: "wait", comes: "twice", brief: false },
            { do: "keyed", stays: true },
          ],
        },
        { do: "told", said: "before" },
      ],
    },
    world: { copies: 2, conflicts: true, malformed: true, large: true, restarts: 1, ends: "undone and retried" },
  }));

it.each([0, 1, 2, 3, 4, 5])(
  "a write that the database executes twice (number %i of a run, from 0) records one outcome, with one row",
  (nth) =>
    prove({
      program: { do: "seq", parts: [{ do: "commit", emits: true }, { do: "commit" }] },
      faults: [{ phase: "run", boundary: "database", nth, way: "twice" }],
    }),
);

it("an operator's answer reaches the run, also when the platform accepts it late", () =>
  prove({
    program: {
      do: "all",
      parts: [
        { do: "ask", answer: "yes", otherwise: "reject" },
        { do: "once", upstream: { is: "drops", times: 1 } },
      ],
    },
    faults: [{ phase: "run", boundary: "order", nth: 0, way: "before", times: 2 }],
  }));

it.each(["cancel", "stop", "pause", "restart"] as const)(
  "two operators who %s a run without faults concurrently cause one effect, and the run continues as guaranteed",
  (verb) =>
    prove({
      program: {
        do: "seq",
        parts: [
          { do: "keyed", emits: true },
          { do: "commit", emits: true },
          { do: "lookup", upstream: { is: "slow", times: 1 } },
          { do: "wait", comes: "asked", brief: false },
          { do: "natural" },
        ],
      },
      world: { orders: [{ verb, afterMs: 300, two: true }], direct: true, overdue: true },
    }),
);

it("a failed step that an operator skips with an output has no effect and no undo, and its output is reported; a skipped commit writes no row", () =>
  prove({
    program: {
      do: "seq",
      parts: [
        { do: "keyed", emits: true },
        { do: "lookup", upstream: { is: "never", times: 1 }, emits: true },
        { do: "commit", fails: "for good" },
      ],
    },
    world: { skips: 2, ends: "undone and retried" },
  }));

it.each([
  ["keyed", undefined],
  ["natural", undefined],
  ["keyed", "inline"],
  ["natural", "inline"],
] as const)("the fallback for a refusal (%s, %s) is the only effect, although its replay is interrupted halfway", (instead, inline) =>
  prove({
    program: {
      do: "try",
      bare: true,
      part: { do: "keyed", upstream: { is: "never", times: 1 }, emits: true, stays: true, inline },
      next: { do: instead, upstream: { is: "hangs", times: 1 }, emits: true, stays: true, inline },
    },
    world: { breaks: [0], restarts: 1 },
  }),
);

it("a complete run remains complete although its platform restarts it, and a step that was not awaited throws in that replay", () =>
  prove({
    program: {
      do: "seq",
      parts: [
        { do: "race", parts: [{ do: "read", fails: "later" }, { do: "sleep" }] },
        { do: "commit", fails: "for good" },
      ],
    },
    world: { clicks: [{ verb: "restart", afterMs: 1100, nth: 0 }], ends: "undone" },
  }));

it("a failed and closed run remains closed, for any requests and messages", () =>
  prove({
    program: { do: "seq", parts: [{ do: "keyed", emits: true }, { do: "once", upstream: { is: "never", times: 1 } }, { do: "commit" }] },
    world: { closes: true, late: "late" },
  }));

it("signals of operators reach the wait with their name, in any order", () =>
  prove({
    program: {
      do: "all",
      parts: [
        { do: "wait", comes: "asked", brief: false },
        { do: "wait", comes: "never", brief: true },
      ],
    },
    world: { direct: true },
  }));

it.runIf(asked.whole)("an end that the recorder refuses five times is written shortly after that", { timeout: 200_000 }, () =>
  prove({
    program: { do: "seq", parts: [{ do: "sleep" }] },
    faults: [{ phase: "run", boundary: "recorder", nth: 1, way: "refused", times: 5 }],
  }),
);
