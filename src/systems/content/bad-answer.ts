/** Why a paid answer cannot be used: codes of ours, without `answer_`. */
export const BAD_ANSWERS = ["truncated", "refused", "empty", "malformed"] as const;
export type BadAnswer = (typeof BAD_ANSWERS)[number];

/** The code that an instance ends with. */
export function codeFor(bad: BadAnswer): `answer_${BadAnswer}` {
  return `answer_${bad}`;
}
