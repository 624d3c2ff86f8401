import { LIMITED } from "./flow.ts";
import type { Program } from "./program.ts";
import type { Alone, Case } from "./prove.ts";

const seq = (...parts: Program[]): Program => ({ do: "seq", parts });
const all = (...parts: Program[]): Program => ({ do: "all", parts });
const race = (...parts: Program[]): Program => ({ do: "race", parts });
const attempt = (part: Program, next: Program): Program => ({ do: "try", part, next });

const keyed: Program = { do: "keyed", emits: true };
const lookup: Program = { do: "lookup", emits: true };
const once: Program = { do: "once", emits: true };
const natural: Program = { do: "natural", emits: true };
const commit: Program = { do: "commit", emits: true };

/** Programs that together contain every kind of step, each in another kind of place: every fault is tested on each of them. */
export const REFERENCE: Record<string, Program> = {
  chain: seq(keyed, commit, lookup, once, natural),
  branches: seq(all(seq(keyed, commit, once), seq(lookup, commit), natural), commit),
  nested: all(seq(all(keyed, seq(commit, all(lookup, once))), commit), seq(commit, all(natural, commit))),
  items: { do: "map", items: 3, part: seq(keyed, commit) },
  rounds: { do: "loop", items: 2, part: seq(lookup, { do: "sleep" }, commit) },
  waits: seq(commit, { do: "wait", comes: "asked", brief: false }, { do: "sleep" }, once),
  late: seq(keyed, { do: "wait", comes: "never", brief: true }, { do: "wait", comes: "early", brief: false }, commit),
  again: seq({ do: "wait", comes: "reminded", brief: false }, all({ do: "wait", comes: "pair", brief: false }, commit)),
  asks: seq(all({ do: "ask", answer: "yes", otherwise: "reject" }, keyed), { do: "ask", answer: "never", otherwise: "approve" }, lookup),
  tells: seq({ do: "told", said: "beside" }, once, { do: "told", said: "before" }),
  races: seq(race(seq(keyed, commit), lookup), attempt({ do: "read", fails: "for good" }, once)),
  doubts: seq(
    { do: "once", upstream: { is: "drops", times: 1 }, emits: true },
    all({ do: "once", upstream: { is: "away", times: 1 } }, keyed),
  ),
  failures: seq(all({ do: "lookup", upstream: { is: "never", times: 1 } }, seq(keyed, commit)), {
    do: "keyed",
    upstream: { is: "fails", times: 1 },
  }),
  leaves: seq({ do: "beside", part: seq(keyed, lookup), next: commit }, all(seq(once, { do: "return" }), seq(natural, natural))),
  large: seq(
    { do: "read", large: true },
    { do: "commit", large: true },
    { do: "keyed", large: true },
    { do: "once", large: true, emits: true },
  ),
};

/** Programs under one key, for each kind of flow control. One fails, one sleeps and has a slow effect, and one has an unknown outcome. */
export const REFERENCE_FLOW: Case[] = LIMITED.map((is) => {
  const beside = [
    { program: seq({ do: "sleep" }, { do: "natural", upstream: { is: "slow", times: 1 } }), afterMs: 0 },
    { program: seq({ do: "once", upstream: { is: "drops", times: 1 } }, commit), afterMs: 300 },
  ];
  return { program: seq(keyed, { do: "commit", fails: "for good" }), flow: { is, beside } };
});

/** The case with one change of each of its programs. */
export function withEach({ flow, ...main }: Case, change: (one: Alone) => Alone): Case {
  return { ...change(main), ...(flow && { flow: { ...flow, beside: flow.beside.map((one) => ({ ...one, ...change(one) })) } }) };
}
