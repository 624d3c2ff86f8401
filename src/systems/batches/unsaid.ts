import { FORGOTTEN, forgottenAmong } from "../contacts/forgotten.ts";
import { cellsOf, isDistinct } from "../contacts/traces.ts";
import type { FailedRow } from "./rows.ts";

/** Maximum number of words that are checked in one row. */
const WORDS = 200;

/**
 * Removes the texts of problems whose rows name a forgotten contact. Unreadable rows are also checked, because each word and each cell of
 * an unreadable row may be an id. A valid row is checked by its id, because the id may not be among the row's first characters. The
 * function makes one query for all problems. Without problems the function makes no query.
 */
export async function withoutForgotten(env: Cloudflare.Env, tenantId: string, problems: readonly FailedRow[]): Promise<FailedRow[]> {
  const words = problems.map(({ raw, input }) => [
    ...raw.split(/[\s,;:"{}[\]]+/, WORDS).filter(isDistinct),
    ...cellsOf(raw).slice(0, WORDS),
    ...idIn(input),
  ]);
  const forgotten = await forgottenAmong(env, tenantId, [...new Set(words.flat())]);
  return problems.map((one, index) =>
    one.problem === FORGOTTEN || words[index]?.some((word) => forgotten.has(word)) ? { ...one, raw: "" } : one,
  );
}

function idIn(input: unknown): string[] {
  const { contact_id: id } = (input ?? {}) as { contact_id?: unknown };
  return typeof id === "string" ? [id] : [];
}
