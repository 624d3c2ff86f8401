import { type Ask, give, type Held, heeded, NOTHING, type Rule, type State } from "../../../packages/millrace/src/limits/plan.ts";

/** An event of a limit: a call, a refusal of the upstream or an eviction. `afterMs` is the delay since the previous event. */
export type Happening = { afterMs: number } & (
  | { what: "ask"; cost: number; patienceMs: number; isLate: boolean }
  | { what: "refusal"; forMs: number }
  | { what: "little left"; count: number; forMs: number }
  | { what: "eviction" }
);

export interface Sent {
  at: number;
  cost: number;
}

interface Waiting extends Held {
  /** The time at which the timer of the caller fires, which may be late. */
  comesAt: number;
  ask: Ask;
  asksAgain: boolean;
  giveUpAt: number;
}

/** Callers that follow the protocol of `limitOf`, with their own clock: their grants and refusals. */
export function play(rules: readonly Rule[], happenings: readonly Happening[], marginMs = 0, lateMs = (_nth: number) => 0) {
  let state: State = NOTHING;
  let now = 1_000_000;
  let waiting: Waiting[] = [];
  let come = 0;
  const sent: Sent[] = [];
  const refused: (Sent & { state: State })[] = [];
  const heard: { at: number; forMs: number }[] = [];

  const asks = (ask: Ask, giveUpAt: number): void => {
    const before = state;
    const { answer, state: after } = give(state, ask, now);
    state = after;
    const { go, revision, asksAgain } = answer;
    const at = Math.max(answer.at, now);
    if (go) waiting.push({ at, comesAt: asksAgain ? at + lateMs(come++) : at, revision, ask, asksAgain, giveUpAt });
    else refused.push({ at: now, cost: ask.cost, state: before });
  };
  /** Callers whose time is due send or ask again, in the order of their requests. */
  const passUntil = (time: number): void => {
    for (;;) {
      const next = waiting.filter(({ comesAt }) => comesAt <= time).toSorted((one, other) => one.comesAt - other.comesAt)[0];
      if (!next) break;
      waiting = waiting.filter((one) => one !== next);
      now = Math.max(now, next.comesAt);
      const { ask, at, revision, isLate } = next;
      if (!isLate && !next.asksAgain) sent.push({ at, cost: ask.cost });
      else asks({ ...ask, patienceMs: Math.max(0, next.giveUpAt - now), held: { at, revision, isLate: isLate ?? false } }, next.giveUpAt);
    }
    now = Math.max(now, time);
  };

  for (const happening of happenings) {
    passUntil(now + happening.afterMs);
    if (happening.what === "ask") {
      const { cost, patienceMs, isLate } = happening;
      const known = new Set(waiting);
      asks({ rules, cost, patienceMs, marginMs }, now + patienceMs);
      for (const one of waiting) if (isLate && !known.has(one)) one.isLate = true;
    } else if (happening.what === "refusal") {
      state = heeded(state, { refusedForMs: happening.forMs }, now);
      heard.push({ at: now, forMs: happening.forMs });
    } else if (happening.what === "little left") {
      state = heeded(state, { left: [{ count: happening.count, forMs: happening.forMs }] }, now);
    } else {
      state = structuredClone(state);
    }
  }
  passUntil(Number.MAX_SAFE_INTEGER);
  return { sent: sent.toSorted((one, other) => one.at - other.at), refused, heard, state };
}

/** The highest total cost in any window of this length. */
export function mostWithin(ms: number, sent: readonly Sent[]): number {
  let most = 0;
  let sum = 0;
  let first = 0;
  for (const { at, cost } of sent) {
    sum += cost;
    for (let oldest = sent[first]; oldest && at - oldest.at >= ms; oldest = sent[++first]) sum -= oldest.cost;
    most = Math.max(most, sum);
  }
  return most;
}
