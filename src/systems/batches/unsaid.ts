import { FORGOTTEN, forgottenAmong } from "../contacts/forgotten.ts";
import { cellsOf, isDistinct } from "../contacts/traces.ts";
import type { Problem } from "./report.ts";

/** Words of one row that are looked at. */
const WORDS = 200;

/**
 * Problems without the text of rows that name a contact who was forgotten. Also a row that cannot be read may say who it is: each of its
 * words might be an id, and each of its cells one that is not distinct. One look for all of them, and none where there are no problems.
 */
export async function withoutForgotten(env: Cloudflare.Env, tenantId: string, problems: readonly Problem[]): Promise<Problem[]> {
  const words = problems.map(({ raw }) => [...raw.split(/[\s,;:"{}[\]]+/, WORDS).filter(isDistinct), ...cellsOf(raw).slice(0, WORDS)]);
  const forgotten = await forgottenAmong(env, tenantId, [...new Set(words.flat())]);
  return problems.map((one, index) =>
    one.problem === FORGOTTEN || words[index]?.some((word) => forgotten.has(word)) ? { ...one, raw: "" } : one,
  );
}
