import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { runSlices } from "../contract/slices.ts";
import type { Retention } from "./rule.ts";

const DAY_MS = 86_400_000;
/**
 * Time limit of the removal of old data in one round, in milliseconds, because repairs are due every few seconds. The next round continues
 * the removal.
 */
const BUDGET_MS = 2000;

/** Removes old data by retention rules, slice by slice. A failure of a rule is logged. Returns the number of removed rows. */
export async function sweep(storage: DurableObjectStorage, env: Cloudflare.Env, rules: readonly Retention[]): Promise<number> {
  const startedAt = Date.now();
  const removed: Record<string, number> = {};
  const unfinished = await runSlices(storage, "retention", rules, startedAt + BUDGET_MS, async (rule, from) => {
    try {
      const answer = await rule.prune(env, rule.keepDays * DAY_MS, from);
      const { removed: gone, next } = typeof answer === "object" ? answer : { removed: answer, next: null };
      if (gone > 0) removed[rule.name] = (removed[rule.name] ?? 0) + gone;
      return { next, isOver: typeof answer === "object" ? next === null : answer === 0 };
    } catch (error) {
      logLine("error", { log: "retention", rule: rule.name, error: messageOf(error) });
      return undefined;
    }
  });
  if (Object.keys(removed).length + unfinished.length > 0)
    logLine("info", { log: "retention", removed, unfinished, ms: Date.now() - startedAt });
  return Object.values(removed).reduce((sum, count) => sum + count, 0);
}
