import { waitUntil } from "cloudflare:workers";
import { type EngineEnv, objectBinding, objectsIn } from "../../contract/bindings.ts";
import { inCell } from "../../contract/cells.ts";
import { placed } from "../../contract/location.ts";
import { recorderName } from "../../contract/recorder-name.ts";
import { troubleOf } from "../../store/d1/trouble.ts";
import type { CounterName, HistogramName, LabelsOf } from "./series.ts";
import { addAll, addCount, addObserved, isEmpty, type Tally } from "./tally.ts";

/** How long an isolate gathers counts before it sends them to a recorder, in milliseconds. */
const GATHER_MS = 1000;

/** A planned send of counts that is overdue by this many milliseconds was lost with its invocation. */
const LOST_MS = 10_000;

/**
 * Counts of this isolate that are not yet sent to a recorder. If the isolate is killed, the counts of the last second, or of the last
 * batch, are lost.
 */
const held = { tally: {} as Tally, handedAt: 0, comingSince: 0, isPaused: false, isolate: "" };

/**
 * Increases a counter in memory. The call is fast, never fails, and is never awaited. If the isolate is killed, the counts of the last
 * second are lost. Labels come from code, never from a caller's text.
 */
export function count<Name extends CounterName>(env: object, name: Name, labels: LabelsOf<Name>, by = 1): void {
  if (by > 0) addCount(held.tally, name, labels, by);
  handOverSoon(env);
}

/** Records a histogram's values in memory, in the unit at the end of its name. In all other respects the call is like `count`. */
export function observe<Name extends HistogramName>(env: object, name: Name, labels: LabelsOf<Name>, ...values: number[]): void {
  addObserved(held.tally, name, labels, values);
  handOverSoon(env);
}

/**
 * Sends the gathered counts to a recorder a second later. Without the flag `queue_consumer_no_wait_for_wait_until` a queue would delay its
 * next batch by this second. A Worker without the flag therefore sends the present counts at once, and later counts with the next call of
 * `count`.
 */
function handOverSoon(env: object): void {
  if (held.isPaused || Math.abs(Date.now() - held.comingSince) < LOST_MS || !hasRecorder(env)) return;
  const waits = Cloudflare.compatibilityFlags.queue_consumer_no_wait_for_wait_until === true;
  if (!waits && Math.abs(Date.now() - held.handedAt) < GATHER_MS) return;
  held.comingSince = Date.now();
  inBackground(async () => {
    if (waits) await scheduler.wait(GATHER_MS);
    // The wait lets the code add more counts in this turn of the event loop.
    else await scheduler.wait(0);
    held.comingSince = 0;
    await handOver(env);
  });
}

/** True for a Worker with a recorder. A Worker that only has another Durable Object of the engine has no recorder. */
function hasRecorder(env: object): env is EngineEnv {
  return objectsIn(env, "RECORDER") !== undefined;
}

/** Runs work in the background of the invocation. Outside an invocation, counts stay in memory until the next invocation. */
function inBackground(work: () => Promise<void>): void {
  const working = work().catch(() => undefined);
  try {
    waitUntil(working);
  } catch {
    held.comingSince = 0;
  }
}

/**
 * Sends the counts to the isolate's recorder in the first cell, which stores the counts of all cells. The counts of a failed call are lost,
 * never counted twice.
 */
export async function handOver(env: EngineEnv): Promise<void> {
  if (isEmpty(held.tally)) return;
  const { tally } = held;
  held.tally = {};
  held.handedAt = Date.now();
  held.isolate ||= crypto.randomUUID();
  try {
    await recorderOfIsolate(inCell(env)).tally(tally);
  } catch (error) {
    if (troubleOf(error) === "overloaded") addAll(held.tally, tally);
  }
}

interface Tallying {
  tally(tally: Tally): Promise<void>;
}

function recorderOfIsolate(env: EngineEnv): Tallying {
  const objects = objectBinding(env, "RECORDER");
  const id = objects.idFromName(recorderName(env, held.isolate));
  return objects.get(id, placed(env)) as unknown as Tallying;
}

/** For tests: after this call, only `handOver` sends counts. */
export function pauseHandOver(): void {
  held.isPaused = true;
}
