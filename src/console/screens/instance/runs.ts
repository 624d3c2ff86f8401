import type { Explained } from "../../data/explained.ts";
import type { Action, Detail, Step } from "./whole.ts";

/** A step's name with the key of its item, as the code and the platform say it. */
export function labelOf({ step, item }: { step: string; item: string }): string {
  return item ? `${step} [${item}]` : step;
}

/** A run of an instance that an act has begun: each retry, restart, undo and cancel is the next one. */
export interface Run {
  number: number;
  begunAt: string;
  /** What began it: `ada's retry`. */
  by: string;
  /** What the run before had failed of; undefined where it had not, or nobody noted it. */
  before: string | undefined;
}

const CALLED: Readonly<Record<string, string>> = { skip_step: "skip of a step" };

/** The runs behind the first one, oldest first, as the audit has them. */
export function runsOf(actions: readonly Action[], explained: ReadonlyMap<string, Explained>): Run[] {
  return actions.toReversed().flatMap(({ result, detail, verb, actor, at }) => {
    if (result !== "applied" || typeof detail?.run !== "number") return [];
    return [{ number: detail.run, begunAt: at, by: `${actor}'s ${CALLED[verb] ?? verb}`, before: failureIn(detail.failed, explained) }];
  });
}

function failureIn(failed: unknown, explained: ReadonlyMap<string, Explained>): string | undefined {
  if (typeof failed !== "object" || failed === null) return undefined;
  const { step, code, attempts, upstream_status: status } = failed as Record<string, unknown>;
  const title = explained.get(String(code))?.title.toLowerCase() ?? String(code).replaceAll("_", " ");
  const often = typeof attempts === "number" && attempts > 1 ? `, ${attempts} attempts` : "";
  return `failed${step ? ` at ${step}` : ""}: ${title}${status === undefined ? "" : ` (it answered ${status})`}${often}`;
}

/** Statuses in which a run is over. */
export const OVER: ReadonlySet<string> = new Set(["complete", "errored", "terminated", "dead", "skipped"]);

const ms = (time: string | null) => (time === null ? undefined : Date.parse(time));

/** How long the run that is over took, and how much of that it waited or slept, in milliseconds: the time between two runs is nobody's. */
export function tookOf(
  { accepted_at, updated_at }: Detail,
  steps: readonly Step[],
  runs: readonly Run[],
): { took: number; waited: number } {
  const from = Date.parse(runs.at(-1)?.begunAt ?? accepted_at);
  const to = Date.parse(updated_at);
  const waits = steps.flatMap(({ type, started_at, ended_at }) => {
    const [began, ended] = [ms(started_at), ms(ended_at)];
    // What had no end before this run began was left behind by the one before.
    return type === "do" || began === undefined || (began < from && ended === undefined) ? [] : [{ began, ended: ended ?? to }];
  });
  let [waited, until] = [0, from];
  for (const { began, ended } of waits.toSorted((one, other) => one.began - other.began)) {
    waited += Math.max(0, Math.min(ended, to) - Math.max(began, until));
    until = Math.max(until, Math.min(ended, to));
  }
  return { took: Math.max(0, to - from), waited };
}
