import { expect, it } from "vitest";
import { decide, decideAgain, FRESH_MS, type KnownKeyword } from "../../../src/systems/brand/decide.ts";
import { distinct } from "../../../src/systems/brand/keyword.ts";
import { pace } from "../../../src/systems/brand/pace.ts";

const NOW = Date.parse("2026-10-01T09:30:00.700Z");
const room = { drafts: 1, on_their_way: 1, max_drafts: 3 };
const full = { drafts: 2, on_their_way: 1, max_drafts: 3 };
const research = (ageMs: number) => ({ research: { id: "r1", at: NOW - ageMs } });

it.each<[string, KnownKeyword, typeof room, string]>([
  ["nothing", {}, room, "requested"],
  ["fresh research", research(FRESH_MS - 1), room, "reused"],
  ["research that is seven days old", research(FRESH_MS), room, "requested"],
  ["fresh research and no capacity", research(0), full, "held"],
  ["no content and no capacity", {}, full, "held"],
  ["a live article and no capacity", { live: "c1" }, full, "skipped"],
  ["a draft", { draft: "c1" }, room, "skipped"],
  ["an article being written", { writing: "c1" }, room, "skipped"],
  ["research under way", { researching: "i1", ...research(0) }, room, "skipped"],
  ["a place in the queue", { heldBy: "w1" }, room, "skipped"],
])("the verdict of a keyword with %s is correct", (_, known, taken, verdict) => {
  expect(decide(known, taken, NOW).verdict).toBe(verdict);
});

it("a deferred keyword of a brand remains deferred until there is capacity, and is then decided again", () => {
  expect(decideAgain({ heldBy: "w1" }, full, NOW)).toBeUndefined();
  expect(decideAgain({ heldBy: "w1" }, room, NOW)).toMatchObject({
    verdict: "resumed",
    reason: expect.stringContaining("It is researched."),
  });
  expect(decideAgain({ heldBy: "w1", ...research(86_400_000) }, room, NOW)).toMatchObject({
    verdict: "resumed",
    reason:
      "There is room again: 1 draft waits and 1 is on its way, of 3. The keyword's research is 1 day old, younger than 7 days: it is used again, without a new search.",
    grounds: { research_id: "r1" },
  });
  expect(decideAgain({ heldBy: "w1", live: "c1" }, full, NOW)).toMatchObject({ verdict: "skipped" });
});

it.each([
  [2, [0, 0, 1, 1, 2, 2]],
  [1, [0, 1, 2, 3, 4, 5]],
  [0.5, [0, 2, 4, 6, 8, 10]],
  [3, [0, 0, 0, 1, 1, 1]],
  [2.5, [0, 0, 0, 1, 1, 2]],
  [100, [0, 0, 0, 0, 0, 0]],
])("messages at a rate of %d per second are delayed by %j seconds", (rate, delays) => {
  expect(pace(6, rate, 0, NOW).delays).toEqual(delays);
});

it("two concurrent cycles of a brand together do not exceed the rate of one cycle, for any start of the second", () => {
  const first = pace(3, 2, 0, NOW);
  expect(first.delays).toEqual([0, 0, 1]);
  expect(pace(3, 2, first.next, NOW + 100).delays).toEqual([1, 2, 2]);
  // After two seconds by the clock, the queue is shorter by as many commands.
  expect(pace(3, 2, first.next, NOW + 2000).delays).toEqual([0, 0, 1]);
});

it("keywords are equal without regard to case, spaces and the encoding of accents", () => {
  expect(distinct(["Cold  Brew", "cold brew", " COLD\tBREW ", "Cafe\u0301", "café", "tea"])).toEqual(["Cold Brew", "Café", "tea"]);
});
