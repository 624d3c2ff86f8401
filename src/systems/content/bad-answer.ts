/** The reasons why a paid answer cannot be used. Each reason is an error code without the prefix `answer_`. */
export const BAD_ANSWERS = ["truncated", "refused", "empty", "malformed"] as const;
export type BadAnswer = (typeof BAD_ANSWERS)[number];

/** Returns the instance's error code for an unusable answer. */
export function codeFor(bad: BadAnswer): `answer_${BadAnswer}` {
  return `answer_${bad}`;
}
