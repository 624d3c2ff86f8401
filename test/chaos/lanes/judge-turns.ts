import type { Entry, Turn } from "./entries.ts";

interface TurnsVerdict {
  problems: string[];
  /** Instances that have ended. */
  turns: number;
  /** Kills between the first start and the last end of an instance. */
  kills: number;
  /** Repeated reports of starts and ends. */
  repeats: number;
}

/** Checks the ledger's lines about lanes in front of a workflow: per key, each instance starts after the previous one has ended. */
export function judgeTurns(entries: readonly Entry[]): TurnsVerdict {
  const told = entries.filter((one) => one.is === "turn");
  const isUnderWay = (one: Entry) => one.is === "turn" && one.at !== "asked";
  const [first, last] = [entries.findIndex(isUnderWay), entries.findLastIndex(isUnderWay)];
  const keys = [...Map.groupBy(told, ({ key }) => key)].map(([key, turns]) => judgeKey(key, turns));
  return {
    problems: keys.flatMap(({ problems }) => problems),
    turns: keys.reduce((sum, { ended }) => sum + ended, 0),
    kills: entries.slice(first, last).filter(({ is }) => is === "kill").length,
    repeats: keys.reduce((sum, { repeats }) => sum + repeats, 0),
  };
}

function judgeKey(key: string, told: readonly Turn[]) {
  const problems: string[] = [];
  const said = new Set<string>();
  let repeats = 0;
  let last = 1;
  for (const { n, at } of told) {
    if (at !== "asked") {
      if (n < last) problems.push(`instances of ${key}: ${n} ${at} after ${last}`);
      for (; last < n; last++) if (!said.has(`${last} ends`)) problems.push(`instances of ${key}: ${n} ${at} before ${last} ends`);
    }
    if (at === "ends" && !said.has(`${n} begins`)) problems.push(`instances of ${key}: ${n} ends and has not begun`);
    if (said.has(`${n} ${at}`)) repeats++;
    said.add(`${n} ${at}`);
  }
  const asked = told.filter(({ at, n }) => at === "asked" && !said.has(`${n} ends`));
  problems.push(...asked.map(({ n }) => `instances of ${key}: ${n} is lost`));
  return { problems, repeats, ended: [...said].filter((one) => one.endsWith("ends")).length };
}
