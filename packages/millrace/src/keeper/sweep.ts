import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Retention } from "./rule.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/**
 * Time limit of the removal of old data in one round, in milliseconds, because repairs are due every few seconds. The next round continues
 * the removal.
 */
const BUDGET_MS = 2000;
/** Maximum number of slices of one rule in one round. */
const MAX_SLICES = 100;

/** The due time of a rule, and the position of its scan if one is in progress. */
interface Turn {
  dueAt: number;
  from: string | null;
}

/**
 * Removes old data by retention rules, slice by slice. The rule that has waited longest runs first. If a rule fails, this is logged, and
 * the rule continues an hour later. Returns the number of removed rows.
 */
export async function sweep(storage: DurableObjectStorage, env: Cloudflare.Env, rules: readonly Retention[]): Promise<number> {
  const turns = (await storage.get<Record<string, Turn>>("retention")) ?? {};
  const startedAt = Date.now();
  const turnOf = ({ name }: Retention) => turns[name] ?? { dueAt: 0, from: null };
  const due = rules.filter((rule) => turnOf(rule).dueAt <= startedAt).sort((a, b) => turnOf(a).dueAt - turnOf(b).dueAt);
  if (due.length === 0) return 0;

  const removed: Record<string, number> = {};
  for (const rule of due) {
    if (Date.now() - startedAt >= BUDGET_MS) break;
    const { removed: gone, turn } = await pass(env, rule, { from: turnOf(rule).from, until: startedAt + BUDGET_MS });
    if (gone > 0) removed[rule.name] = gone;
    turns[rule.name] = turn;
  }
  await storage.put("retention", turns);
  const unfinished = due.filter((rule) => turnOf(rule).dueAt <= Date.now()).map(({ name }) => name);
  if (Object.keys(removed).length + unfinished.length > 0)
    logLine("info", { log: "retention", removed, unfinished, ms: Date.now() - startedAt });
  return Object.values(removed).reduce((sum, count) => sum + count, 0);
}

/** Runs slices of one rule until its scan is complete or the time is up. Returns the number of removed rows, and the next due time. */
async function pass(
  env: Cloudflare.Env,
  rule: Retention,
  { from, until }: { from: string | null; until: number },
): Promise<{ removed: number; turn: Turn }> {
  let removed = 0;
  try {
    for (let slice = 0; slice < MAX_SLICES; slice++) {
      const answer = await rule.prune(env, rule.keepDays * DAY_MS, from);
      const walks = typeof answer === "object";
      removed += walks ? answer.removed : answer;
      from = walks ? answer.next : null;
      const over = walks ? from === null : answer === 0;
      if (over) return { removed, turn: { dueAt: Date.now() + (rule.everyHours ?? 1) * HOUR_MS, from: null } };
      if (Date.now() >= until) break;
    }
    return { removed, turn: { dueAt: Date.now(), from } };
  } catch (error) {
    logLine("error", { log: "retention", rule: rule.name, error: messageOf(error) });
    return { removed, turn: { dueAt: Date.now() + HOUR_MS, from } };
  }
}
