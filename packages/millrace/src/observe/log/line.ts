import { type LogLevel, logLine } from "../../contract/log-line.ts";
import { sayUnmeant } from "../../contract/settings.ts";

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

interface SamplingEnv {
  readonly LOG_GOOD_PER_SECOND?: string | number;
}

/** Number of success lines per second up to which an isolate writes every success line. */
const GOOD_LINES_PER_SECOND = 50;

const WINDOW_MS = 1000;

/** The present second, with the number of this isolate's success lines in this second and in the second before. */
let window = { since: 0, offered: 0, before: 0 };

/**
 * Decides whether a success line is written. Returns undefined if not, otherwise the number of lines that the line represents. Up to the
 * rate (`LOG_GOOD_PER_SECOND`) each line represents only itself. Above the rate, one trace in 2, 4, 8 … has its lines written. The choice
 * depends on the trace's id, so every isolate writes or drops all lines of a job. A trace that is written at one in 8 is also written at
 * one in 4.
 */
export function sampledAs(env: SamplingEnv, traceId: string | undefined, now = Date.now()): number | undefined {
  const said = Number(env.LOG_GOOD_PER_SECOND ?? GOOD_LINES_PER_SECOND);
  if (!(said >= 0)) {
    const known = JSON.stringify(env.LOG_GOOD_PER_SECOND);
    sayUnmeant(env, `LOG_GOOD_PER_SECOND is ${known}: set a number, 0 or more. The default ${GOOD_LINES_PER_SECOND} applies.`);
  }
  const rate = said >= 0 ? said : GOOD_LINES_PER_SECOND;
  if (rate === 0) return undefined;
  const elapsed = now - window.since;
  if (elapsed >= WINDOW_MS || elapsed < 0) {
    const isNext = elapsed >= 0 && elapsed < 2 * WINDOW_MS;
    window = { since: now, offered: 0, before: isNext ? window.offered : 0 };
  }
  window.offered++;
  const excess = Math.max(window.offered, window.before) / rate;
  const oneIn = 2 ** Math.min(MOST_HALVINGS, Math.max(0, Math.ceil(Math.log2(excess))));
  // A line without a trace is sampled by its position within the second.
  return (traceId === undefined ? window.offered : placeOf(traceId)) % oneIn === 0 ? oneIn : undefined;
}

/** Maximum number of times that the share of written traces is halved, so that at least one trace in a million is written. */
const MOST_HALVINGS = 20;

/** A hash that distributes traces evenly for any kind of ids (FNV-1a with one more mixing step). */
function placeOf(traceId: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < traceId.length; index++) hash = Math.imul(hash ^ traceId.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
