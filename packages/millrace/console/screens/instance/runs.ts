import type { Explained } from "../../data/explained.ts";
import type { Action } from "./whole.ts";

/** A run that an operator's action began: each retry, restart, undo and cancel begins the next one. */
export interface Run {
  number: number;
  begunAt: string;
  by: string;
  /** The error of the previous run; undefined if there is no previous run, or if its error is not recorded. */
  before: string | undefined;
}

const CALLED: Readonly<Record<string, string>> = { skip_step: "skip of a step" };

/** The runs of an instance after its first one, oldest first, derived from the audit. */
export function runsOf(actions: readonly Action[], explained: ReadonlyMap<string, Explained>): Run[] {
  return actions.toReversed().flatMap(({ result, detail, verb, actor, at }) => {
    // A stop of an instance without an undo begins no run.
    if (result !== "applied" || typeof detail?.run !== "number" || detail.undo === false) return [];
    return [{ number: detail.run, begunAt: at, by: `${actor}'s ${CALLED[verb] ?? verb}`, before: failureIn(detail.failed, explained) }];
  });
}

function failureIn(failed: unknown, explained: ReadonlyMap<string, Explained>): string | undefined {
  if (typeof failed !== "object" || failed === null) return undefined;
  const { step, code, attempts, upstream_status: status } = failed as Record<string, unknown>;
  const title = explained.get(String(code))?.title.toLowerCase() ?? String(code).replaceAll("_", " ");
  const often = typeof attempts === "number" && attempts > 1 ? `, ${attempts} attempts` : "";
  return `failed${step ? ` at ${step}` : ""}: ${title}${status === undefined ? "" : ` (status ${status})`}${often}`;
}

export const OVER: ReadonlySet<string> = new Set(["complete", "errored", "terminated", "dead", "skipped"]);
