import { expect, it } from "vitest";
import { type Account, misordered, type Verdict, wrongWith } from "./account.ts";
import type { Effect, Expected } from "./model.ts";

const once: Account = { happened: 1, back: 0, undos: 0, again: 0, events: 1, commands: 1, heard: 1 };
const effect = (more: Partial<Effect> = {}): Effect => ({ at: "r", class: "keyed", emits: true, stays: false, ...more });

/** The problem of an effect with this record; `least` null: the effect was not supposed to happen. */
function wrong(of: Effect, account: Partial<Account>, least: 0 | 1 | null = 1, more: Partial<Verdict> = {}): string[] {
  const effects = new Map<string, Expected>(least === null ? [] : [[of.at, { ...of, least }]]);
  const expected = { effects, order: [], story: [], problems: [] };
  const trace = { note: 0, did: {}, failed: [], decided: {} };
  return wrongWith(of, { ...once, ...account }, { ended: "complete", expected, trace, before: [], cut: false, letters: [], ...more });
}
const none = { happened: 0, events: 0, commands: 0, heard: 0 };
const twice = { happened: 2, events: 2, heard: 2 };

it("the account of a run accepts effects that happened and were reported once", () => {
  expect(wrong(effect(), {})).toEqual([]);
  expect(wrong(effect(), none, 0)).toEqual([]);
  expect(wrong(effect(), none, null)).toEqual([]);
});

it.each(["commit", "keyed", "lookup", "once"] as const)(
  "the account of a run reports a %s effect that was lost, invented or repeated",
  (of) => {
    expect(wrong(effect({ class: of }), none)).not.toEqual([]);
    expect(wrong(effect({ class: of }), {}, null)).not.toEqual([]);
    expect(wrong(effect({ class: of }), twice)).not.toEqual([]);
    expect(wrong(effect({ class: of }), twice, 0)).not.toEqual([]);
  },
);

it("the account of a run permits repeats of natural effects only, and one report of each", () => {
  expect(wrong(effect({ class: "natural" }), { happened: 3 })).toEqual([]);
  expect(wrong(effect({ class: "natural" }), { happened: 3, events: 2, heard: 2 })).not.toEqual([]);
  expect(wrong(effect({ class: "natural" }), {}, null)).not.toEqual([]);
});

it("the account of a run permits one more effect of an unknown outcome for each repeat by an operator", () => {
  expect(wrong(effect({ class: "once" }), { happened: 2, again: 1 })).toEqual([]);
  expect(wrong(effect({ class: "once" }), { happened: 3, again: 1 })).not.toEqual([]);
  expect(wrong(effect(), { happened: 2, again: 1 })).not.toEqual([]);
});

it("the account of a run reports an event that was lost, repeated, or not passed on", () => {
  expect(wrong(effect(), { events: 0, commands: 0, heard: 0 })).not.toEqual([]);
  expect(wrong(effect(), { events: 2 })).not.toEqual([]);
  expect(wrong(effect(), { commands: 2 })).not.toEqual([]);
  expect(wrong(effect(), { heard: 0 })).not.toEqual([]);
  expect(wrong(effect({ emits: false }), {})).not.toEqual([]);
});

it("the account of a run requires one undo of an undone effect, and one repeat of a repeated effect", () => {
  const undone = { ended: "terminated" as const };
  expect(wrong(effect(), { back: 1, undos: 1 }, 1, undone)).toEqual([]);
  expect(wrong(effect(), { undos: 1 }, 1, undone)).not.toEqual([]);
  expect(wrong(effect(), { back: 2, undos: 1 }, 1, undone)).not.toEqual([]);
  expect(wrong(effect({ stays: true }), { undos: 1 }, 1, undone)).toEqual([]);
  expect(wrong(effect(), { ...twice, back: 1, undos: 1 })).toEqual([]);
  expect(wrong(effect(), { back: 1, undos: 1 })).not.toEqual([]);
});

it("the account of a run reports undos in the order of the effects", () => {
  const expected = { effects: new Map(), order: [["r.0", "r.1"] as [string, string]], story: [], problems: [] };
  expect(misordered(["r.1", "r.0"], expected)).toEqual([]);
  expect(misordered(["r.0", "r.1"], expected)).toHaveLength(1);
});

it("the account of a stopped run accepts each effect at most once, and its report only if it was recorded", () => {
  expect(wrong(effect(), { events: 0, commands: 0, heard: 0 }, 0, { stopped: true })).toEqual([]);
  expect(wrong(effect(), twice, 0, { stopped: true })).not.toEqual([]);
  expect(wrong(effect(), {}, 0, { stopped: true, ended: "terminated" })).not.toEqual([]);
  expect(wrong(effect(), { back: 1, undos: 1 }, 0, { stopped: true, ended: "terminated" })).toEqual([]);
  expect(wrong(effect(), { back: 1, undos: 0 }, 0, { stopped: true })).not.toEqual([]);
});
