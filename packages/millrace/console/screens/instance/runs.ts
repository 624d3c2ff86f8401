import type { Explained } from "../../data/explained.ts";
import type { Action } from "./whole.ts";

/** A run that an operator's action started. Each retry, restart, undo and cancel starts the next run. */
export interface Run {
  number: number;
  begunAt: string;
  by: string;
  /** The error of the previous run. Undefined if no previous run exists, or if the error of the previous run is not recorded. */
  before: string | undefined;
}

const CALLED: Readonly<Record<string, string>> = { skip_step: "skip of a step" };

/** The runs of an instance after its first one, oldest first, derived from the audit. */
export function runsOf(actions: readonly Action[], explained: ReadonlyMap<string, Explained>): Run[] {
  return actions.toReversed().flatMap(({ result, detail, verb, actor, at }) => {
    // If an operator stops an instance without an undo, no new run starts.
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
