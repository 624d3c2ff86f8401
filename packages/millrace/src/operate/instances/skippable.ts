import type { Effect } from "../../inspect/effects.ts";

/** The reason for a refusal to skip a step that has an outcome or is in doubt; null for any other. */
export function whyAnswered(entry: Effect | undefined, label: string): string | null {
  if (entry?.state === "done" && entry.error !== null && entry.output === null) {
    return `"${label}" happened, but its output could not be stored: confirm its output (POST /v1/effects/${entry.key}/confirm), then retry.`;
  }
  if (entry?.state === "done" && entry.skipped) {
    return `"${label}" is skipped already: if the given output is wrong, confirm another (POST /v1/effects/${entry.key}/confirm), then retry.`;
  }
  if (entry?.state === "done" || entry?.state === "confirmed") return `"${label}" has not failed: its outcome is recorded.`;
  if (entry?.state === "in_doubt" && entry.answered !== null) {
    return `"${label}" happened, but the rows that it records were refused: deploy code with valid rows, then confirm it (POST /v1/effects/${entry.key}/confirm).`;
  }
  if (entry?.state === "in_doubt")
    return `The outcome of "${label}" is unknown: resolve it first (POST /v1/effects/${entry.key}/confirm, or reject).`;
  return null;
}
