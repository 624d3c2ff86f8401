import { describe, expect, it } from "vitest";
import { effectsOf, expectationOf } from "./model.ts";
import { BY_HAND } from "./orders.ts";
import { possibleOf } from "./possible.ts";
import type { Program, Trace } from "./program.ts";

const keyed: Program = { do: "keyed" };
const refused: Program = { do: "keyed", upstream: { is: "never", times: 1 } };
const seq = (...parts: Program[]): Program => ({ do: "seq", parts });
const all = (...parts: Program[]): Program => ({ do: "all", parts });
const race = (...parts: Program[]): Program => ({ do: "race", parts });

/** The model's expectation for a branch of a program: the minimum of each effect, and the problems. */
function says(program: Program, trace: Partial<Trace>): { least: Record<string, number>; problems: string[] } {
  const { effects, problems } = expectationOf(program, { note: 0, did: {}, failed: [], decided: {}, ...trace });
  return { least: Object.fromEntries([...effects].map(([at, { least }]) => [at, least])), problems };
}

describe("The model", () => {
  it("the model requires the awaited events, and no continuation without them", () => {
    expect(says(seq(keyed, keyed), { did: { "r.0": "1", "r.1": "2" } })).toEqual({ least: { "r.0": 1, "r.1": 1 }, problems: [] });
    expect(says(seq(keyed, keyed), { did: { "r.1": "2" } }).problems).not.toEqual([]);
    expect(says(all(keyed, keyed), { did: { "r.0": "1" } }).problems).not.toEqual([]);
  });

  it("the model permits either outcome for the loser of a race, and requires a decided winner", () => {
    const won = { decided: { r: 0 }, did: { "r.0": "1", "r:0": "r:0" } };
    expect(says(race(keyed, keyed), won)).toEqual({ least: { "r.0": 1, "r.1": 0, "r:0": 1 }, problems: [] });
    expect(says(race(keyed, keyed), { ...won, did: { "r.0": "1" } }).problems).not.toEqual([]);
    expect(says(race(keyed, keyed), { ...won, decided: { r: 1 } }).problems).not.toEqual([]);
  });

  it("the model accepts a failure if the upstream can have refused, and requires the fallback", () => {
    const attempt = (part: Program): Program => ({ do: "try", part, next: keyed });
    const caught = { decided: { r: "caught" }, failed: ["r.0"], did: { "r:caught": "r:caught", "r.1": "1" } };
    expect(says(attempt(refused), caught)).toEqual({ least: { "r:caught": 1, "r.1": 1 }, problems: [] });
    const bare = { ...attempt(refused), bare: true };
    expect(says(bare, { ...caught, did: { "r.1": "1" } })).toEqual({ least: { "r.1": 1 }, problems: [] });
    expect(says(bare, { did: { "r.0": "1" } })).toEqual({ least: { "r.0": 1 }, problems: [] });
    expect(says(attempt(keyed), caught).problems).toEqual(["r.0 failed, and cannot"]);
    expect(says(seq(refused), { failed: ["r.0"] }).problems).not.toEqual([]);
  });

  it("the model counts an attempt in which the process died as one of a step's attempts", () => {
    const limited: Program = { do: "try", part: { do: "keyed", upstream: { is: "limits", times: 3 } }, next: keyed };
    const trace = { note: 0, decided: { r: "caught" }, failed: ["r.0"], did: { "r:caught": "r:caught", "r.1": "1" } };
    expect(expectationOf(limited, trace).problems).toEqual(["r.0 failed, and cannot"]);
    expect(expectationOf(limited, trace, true).problems).toEqual([]);
  });

  it("the model leaves the progress of other branches open when one failed or returned", () => {
    const returned = { left: "r.0", decided: { "r.0": "left" }, did: { "r.0:left": "r.0:left" } };
    expect(says(all({ do: "return" }, keyed), returned)).toEqual({ least: { "r.0:left": 1, "r.1": 0 }, problems: [] });
    expect(says(seq({ do: "return" }, keyed), returned)).toEqual({ least: { "r.0:left": 1 }, problems: [] });
  });

  it("the model has the possible answers of a wait and a question", () => {
    const heard = (answer: string) => ({ decided: { r: answer }, did: { [`r:${answer}`]: `r:${answer}` } });
    expect(says({ do: "wait", comes: "asked", brief: false }, heard("heard one")).problems).toEqual([]);
    expect(says({ do: "wait", comes: "asked", brief: false }, heard("late")).problems).not.toEqual([]);
    expect(says({ do: "wait", comes: "twice", brief: false }, heard("heard other")).problems).not.toEqual([]);
    expect(says({ do: "ask", answer: "no", otherwise: "approve" }, heard("yes by tess")).problems).not.toEqual([]);
  });

  it("the model has all possible effects of a program, by its items", () => {
    const program: Program = { do: "map", items: 2, part: seq(keyed, { do: "read" }) };
    expect(effectsOf(program).map(({ at }) => at)).toEqual(["r.a.0", "r.b.0"]);
  });

  it("the model has the order of sequential effects, and none of parallel effects", () => {
    const { order } = expectationOf(seq(all(keyed, keyed), keyed), {
      note: 0,
      did: { "r.0.0": "1", "r.0.1": "2", "r.1": "3" },
      failed: [],
      decided: {},
    });
    expect(order).toEqual([
      ["r.0.0", "r.1"],
      ["r.0.1", "r.1"],
    ]);
  });

  it("the model accepts an operator's output for a failed step with possible effects, and for a commit without rows", () => {
    const byHand = { did: { "r.0": BY_HAND, "r.1": BY_HAND } };
    expect(says(seq(refused, { do: "commit", fails: "for good" }), byHand)).toEqual({ least: { "r.0": 0 }, problems: [] });
  });

  it("the model has the possible orders of a stopped program's effects, except for effects that were not awaited", () => {
    const { order, effects } = possibleOf(seq(keyed, all(keyed, keyed), race(keyed, keyed), keyed));
    expect([...effects.values()].map(({ least }) => least)).toEqual(new Array(8).fill(0));
    const earlier = (later: string) => order.flatMap(([one, other]) => (other === later ? [one] : []));
    expect(earlier("r.1.1")).toEqual(["r.0"]);
    expect(earlier("r.3")).toEqual(["r.0", "r.1.0", "r.1.1"]);
  });
});
