import type { EngineEnv } from "../contract/bindings.ts";
import { namedBatch } from "../store/d1/named.ts";
import { selectRecentLetters } from "../store/dead-letters.ts";

export interface LettersOfType {
  readonly queue: string;
  readonly type: string;
  readonly captured: number;
  readonly open: number;
}

/**
 * The dead letters of the last day, of all tenants, by queue and type. A type for which `isKnown` returns false is counted as `unknown`.
 */
export async function deadLettersByType(env: Pick<EngineEnv, "DB">, isKnown: (type: string) => boolean): Promise<LettersOfType[]> {
  const rows = await namedBatch(env.DB, {
    open: selectRecentLetters("open"),
    replayed: selectRecentLetters("replayed"),
    skipped: selectRecentLetters("skipped"),
  });
  const sums = new Map<string, { queue: string; type: string; captured: number; open: number }>();
  for (const [state, found] of Object.entries(rows)) {
    for (const row of found) {
      const queue = String(row.queue);
      const said = String(row.message_type ?? "");
      const type = isKnown(said) ? said : "unknown";
      const sum = sums.get(JSON.stringify([queue, type])) ?? { queue, type, captured: 0, open: 0 };
      sum.captured += Number(row.letters);
      if (state === "open") sum.open += Number(row.letters);
      sums.set(JSON.stringify([queue, type]), sum);
    }
  }
  return [...sums.values()].toSorted((a, b) => b.captured - a.captured || (a.queue < b.queue ? -1 : 1));
}
