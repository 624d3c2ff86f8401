import { type LoggedFailure, type LoggedRun, logEnd, loggedInstance, withheldBy } from "./log/instances.ts";
import { countEnd } from "./metrics/runs.ts";
import { traceEnd } from "./traces/instances.ts";

/** A pass that ends its run. */
interface EndedRun extends LoggedRun {
  /** When its instance was created; undefined where only its message says. */
  readonly createdAt: Date | undefined;
  /** When the pass began, in milliseconds since 1970. */
  readonly beganAt: number;
}

/**
 * Notes how a run ended: one line of the log, one more in its count, and the span of the whole. Of a later run, only this pass knows when
 * it began.
 */
export function noteEnd(run: EndedRun, number: number, status: string, failure: LoggedFailure | null): void {
  const beganAt = number === 1 ? (run.createdAt?.getTime() ?? Date.parse(run.envelope.created_at)) : run.beganAt;
  const shown = failure && withheldBy(run, failure);
  logEnd(run.env, loggedInstance(run), status, shown, Date.now() - beganAt);
  countEnd(run.env, run.workflow, status, shown?.code);
  traceEnd({ run, number, status, beganAt, failure: shown });
}
