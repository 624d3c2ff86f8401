import type { Effect } from "../../inspect/effects.ts";

/** Why a step is not skipped that has an outcome, or waits for a person to say which; null for one that has none. */
export function whyAnswered(entry: Effect | undefined, label: string): string | null {
  if (entry?.state === "done" && entry.error !== null && entry.output === null) {
    return `"${label}" has happened, and what it answered could not be kept: say what that was (POST /v1/effects/${entry.key}/confirm), then retry.`;
  }
  if (entry?.state === "done" && entry.skipped) {
    return `"${label}" is skipped already: where the output that was given is of no use, give another (POST /v1/effects/${entry.key}/confirm), then retry.`;
  }
  if (entry?.state === "done" || entry?.state === "confirmed") return `"${label}" has not failed: it answered.`;
  if (entry?.state === "in_doubt" && entry.answered !== null) {
    return `"${label}" happened, and what is recorded with it was refused: deploy code whose record fits, then confirm it (POST /v1/effects/${entry.key}/confirm).`;
  }
  if (entry?.state === "in_doubt") return `Nobody knows whether "${label}" happened: resolve that (POST /v1/effects/${entry.key}/confirm).`;
  return null;
}
