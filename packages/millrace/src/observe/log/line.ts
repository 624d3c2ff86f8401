import { type LogLevel, logLine } from "../../contract/log-line.ts";
import { sampledAs } from "./sampling.ts";

/** A log line about a job. */
export interface JobLine {
  readonly log: string;
  readonly trace_id?: string | undefined;
  readonly [field: string]: unknown;
}

/** Longest name in a line. */
export const MAX_NAME_CHARACTERS = 200;

/**
 * Writes a line about a job. Above the rate, lines about successes are sampled by trace, with `sampled` for the number that each
 * represents. Other lines are always written.
 */
export function logJobLine(env: object, level: LogLevel, line: JobLine): void {
  logSampled(env, level, line.trace_id, () => line);
}

/** Writes a sampled line like `logJobLine`, but builds the line only if it is written. */
export function logSampled(env: object, level: LogLevel, traceId: string | undefined, make: () => JobLine): void {
  const standsFor = level === "info" ? sampledAs(env, traceId) : 1;
  if (standsFor !== undefined) logLine(level, { ...make(), ...(standsFor > 1 && { sampled: standsFor }) });
}
