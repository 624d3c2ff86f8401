import type { Entry } from "./entries.ts";
import { KeyJudge } from "./judge-key.ts";
import { judgeTurns } from "./judge-turns.ts";

/** The check of a ledger against the guarantees of lanes. */
export interface Verdict {
  /** The violations; empty for none. */
  problems: string[];
  messages: number;
  keys: number;
  kills: number;
  /** Processes that handled messages. */
  lives: number;
  deliveries: number;
  failures: number;
  letters: number;
  /** Successes of an earlier process that a process repeated. */
  duplicates: number;
  /** The maximum of repeats of one key after one kill: at most a batch. */
  most_duplicates: number;
  /** Dead letters that were handed over again after they had been accepted. */
  duplicate_letters: number;
  /** Sends that were answered a second time for the same message. */
  duplicate_sends: number;
  /** Valid messages whose retries were all used up by killed processes. */
  given_up_by_kills: number;
  /** Ended instances behind a lane. */
  turns: number;
  /** Kills between the first start and the last end of these instances. */
  turn_kills: number;
  /** Repeated reports of starts and ends of instances. */
  turn_repeats: number;
}

/** Checks lanes by their ledger alone. */
export function judge(entries: readonly Entry[]): Verdict {
  const lives = [...new Set(entries.flatMap((one) => ("life" in one ? [one.life] : [])))];
  const kills = entries.filter(({ is }) => is === "kill").length;
  const ofKeys = Map.groupBy(
    entries.filter((one) => one.is !== "kill" && one.is !== "turn"),
    ({ lane, key }) => `${lane} ${key}`,
  );
  const keys = [...ofKeys].map(([name, told]) => new KeyJudge(name, told, lives));
  const sum = (count: (key: KeyJudge) => number) => keys.reduce((all, key) => all + count(key), 0);
  const extra = lives.length > kills + 1 ? [`${lives.length} processes handled messages, with ${kills} kills`] : [];
  const turns = judgeTurns(entries);
  return {
    problems: [...extra, ...turns.problems, ...keys.flatMap(({ problems }) => problems)],
    messages: sum(({ messages }) => messages),
    keys: keys.length,
    kills,
    lives: lives.length,
    deliveries: entries.filter(({ is }) => is === "delivery").length,
    failures: entries.filter((one) => one.is === "delivery" && one.did === "refused").length,
    letters: sum(({ letters }) => letters),
    duplicates: sum(({ repeats }) => repeats.reduce((all, count) => all + count, 0)),
    most_duplicates: Math.max(0, ...keys.flatMap(({ repeats }) => repeats)),
    duplicate_letters: sum(({ duplicateLetters }) => duplicateLetters),
    duplicate_sends: entries.filter((one) => one.is === "accepted" && one.duplicate).length,
    given_up_by_kills: sum(({ givenUpByKills }) => givenUpByKills),
    turns: turns.turns,
    turn_kills: turns.kills,
    turn_repeats: turns.repeats,
  };
}
