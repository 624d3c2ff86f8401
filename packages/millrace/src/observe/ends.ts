import { type LoggedFailure, type LoggedRun, logEnd, loggedInstance, withheldBy } from "./log/instances.ts";
import { countEnd } from "./metrics/runs.ts";
import { traceEnd } from "./traces/instances.ts";

/** The replay that ends a run. */
interface EndedRun extends LoggedRun {
  /** The creation time of the instance; undefined if only the instance's message contains it. */
  readonly createdAt: Date | undefined;
  /** When the replay began, in milliseconds since 1970. */
  readonly beganAt: number;
}

/**
 * Records the end of a run: one log line, one count, and the span of the instance. Only this replay has recorded when a retry or undo
 * started.
 */
export function noteEnd(run: EndedRun, number: number, status: string, failure: LoggedFailure | null): void {
  const beganAt = number === 1 ? (run.createdAt?.getTime() ?? Date.parse(run.envelope.created_at)) : run.beganAt;
  const shown = failure && withheldBy(run, failure);
  logEnd(run.env, loggedInstance(run), status, shown, Date.now() - beganAt);
  countEnd(run.env, run.workflow, status, shown?.code);
  traceEnd({ run, number, status, beganAt, failure: shown });
}
