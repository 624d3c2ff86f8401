import { type LogLevel, logLine } from "../../contract/log-line.ts";
import { sampledAs } from "./sampling.ts";

/** One line of the log that is about a job. */
export interface JobLine {
  readonly log: string;
  readonly trace_id?: string | undefined;
  readonly [field: string]: unknown;
}

/** Names in a line are cut to so many characters. */
export const MAX_NAME_CHARACTERS = 200;

/**
 * Writes a line about a job. One about what went well is sampled by its trace beyond the rate, and says then for how many it stands
 * (`sampled`); any other is always written.
 */
export function logJobLine(env: object, level: LogLevel, line: JobLine): void {
  logSampled(env, level, line.trace_id, () => line);
}

/** The same of a line that is made only if it is written. */
export function logSampled(env: object, level: LogLevel, traceId: string | undefined, make: () => JobLine): void {
  const standsFor = level === "info" ? sampledAs(env, traceId) : 1;
  if (standsFor !== undefined) logLine(level, { ...make(), ...(standsFor > 1 && { sampled: standsFor }) });
}
