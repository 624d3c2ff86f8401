import { type LogLevel, logLine } from "../../contract/log-line.ts";
import { sampledAs } from "./sampling.ts";

/** A log line about a job. */
export interface JobLine {
  readonly log: string;
  readonly trace_id?: string | undefined;
  readonly [field: string]: unknown;
}

/** Maximum length of a name in a log line, in characters. */
export const MAX_NAME_CHARACTERS = 200;

/**
 * Writes a log line about a job. Above the rate limit, lines about successes are sampled by trace, and `sampled` is the number of lines
 * that each line represents. Lines about failures are always written.
 */
export function logJobLine(env: object, level: LogLevel, line: JobLine): void {
  logSampled(env, level, line.trace_id, () => line);
}

/** Writes a sampled log line like `logJobLine`, but builds the line only if sampling selects it. */
export function logSampled(env: object, level: LogLevel, traceId: string | undefined, make: () => JobLine): void {
  const standsFor = level === "info" ? sampledAs(env, traceId) : 1;
  if (standsFor !== undefined) logLine(level, { ...make(), ...(standsFor > 1 && { sampled: standsFor }) });
}
