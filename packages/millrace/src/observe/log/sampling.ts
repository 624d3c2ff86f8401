import { sayUnmeant } from "../../contract/settings.ts";

/** What sampling reads of a Worker's env. */
interface SamplingEnv {
  readonly LOG_GOOD_PER_SECOND?: string | number;
}

/** Lines about what went well that one isolate writes in a second before it samples them. */
const GOOD_LINES_PER_SECOND = 50;

const WINDOW_MS = 1000;

/** The present second of this isolate: lines that were to be written in it, and in the one before. */
let window = { since: 0, offered: 0, before: 0 };

/**
 * Decides whether a line about what went well is written: undefined if not, else how many such lines it stands for. Up to the rate
 * (`LOG_GOOD_PER_SECOND`) each stands for itself. Beyond it one trace in 2, 4, 8 … keeps its lines: chosen by the trace's id, so that all
 * lines of a job stay or go together, in every isolate, and what is kept at 8 is kept at 4.
 */
export function sampledAs(env: SamplingEnv, traceId: string | undefined, now = Date.now()): number | undefined {
  const said = Number(env.LOG_GOOD_PER_SECOND ?? GOOD_LINES_PER_SECOND);
  if (!(said >= 0)) {
    const known = JSON.stringify(env.LOG_GOOD_PER_SECOND);
    sayUnmeant(env, `LOG_GOOD_PER_SECOND is ${known}: say a number, 0 or more. Until then it is ${GOOD_LINES_PER_SECOND}.`);
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
  // What belongs to no trace stays or goes by its turn.
  return (traceId === undefined ? window.offered : placeOf(traceId)) % oneIn === 0 ? oneIn : undefined;
}

/** At most one trace in a million. */
const MOST_HALVINGS = 20;

/** Where a trace stands among all: evenly spread, whoever made its id (FNV-1a, its bits mixed once more). */
function placeOf(traceId: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < traceId.length; index++) hash = Math.imul(hash ^ traceId.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
