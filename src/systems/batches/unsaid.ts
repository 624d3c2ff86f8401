import { FORGOTTEN, forgottenAmong } from "../contacts/forgotten.ts";
import { cellsOf, isDistinct } from "../contacts/traces.ts";
import type { Problem } from "./report.ts";

/** Words of one row that are checked. */
const WORDS = 200;

/**
 * Removes the texts of problems whose rows name a forgotten contact. Unreadable rows are checked too: each word may be an id, and each cell
 * an id that is not distinct. One query for all, and none without problems.
 */
export async function withoutForgotten<Refused extends Problem>(
  env: Cloudflare.Env,
  tenantId: string,
  problems: readonly Refused[],
): Promise<Refused[]> {
  const words = problems.map(({ raw }) => [...raw.split(/[\s,;:"{}[\]]+/, WORDS).filter(isDistinct), ...cellsOf(raw).slice(0, WORDS)]);
  const forgotten = await forgottenAmong(env, tenantId, [...new Set(words.flat())]);
  return problems.map((one, index) =>
    one.problem === FORGOTTEN || words[index]?.some((word) => forgotten.has(word)) ? { ...one, raw: "" } : one,
  );
}
