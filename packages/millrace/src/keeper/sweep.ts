import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { runSlices } from "../contract/slices.ts";

export interface Retention {
  /**
   * The rule's name in the log: a table or a bucket. The name is unique, because the keeper stores the position of the scan under this
   * name.
   */
  readonly name: string;
  readonly keepDays: number;
  /** Hours from the end of one scan to the start of the next. Default: 1. The interval is longer for a rule that must read all rows. */
  readonly everyHours?: number;
  /**
   * Removes one slice of rows older than `keepMs`, which is small enough not to block the database. Returns the number of removed rows, or
   * 0 when no old row remains. A rule that scans returns the start of its next slice. The next call gets this start as `from`; null means
   * the beginning. A call can be repeated safely from any position.
   */
  readonly prune: (env: Cloudflare.Env, keepMs: number, from: string | null) => Promise<number | Slice>;
}

/** One slice of a scan. */
export interface Slice {
  readonly removed: number;
  /** The position at which the next slice starts; null at the end of the scan. */
  readonly next: string | null;
}

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
