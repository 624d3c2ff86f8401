import { waitUntil } from "cloudflare:workers";
import { type EngineEnv, objectBinding, objectsIn } from "../../contract/bindings.ts";
import { placed } from "../../contract/location.ts";
import { recorderName, shardsOf } from "../../contract/recorder-name.ts";
import { troubleOf } from "../../store/d1/trouble.ts";
import type { CounterName, HistogramName, LabelsOf } from "./series.ts";
import { addAll, addCount, addObserved, isEmpty, type Tally } from "./tally.ts";

/** How long an isolate gathers counts before it hands them to a recorder. */
const GATHER_MS = 1000;

/** A hand-over that has not come by then died with what it waited in. */
const LOST_MS = 10_000;

/** What this isolate has counted and not handed over. It dies with the isolate: a second's worth, or what its last batch brought. */
const held = { tally: {} as Tally, handedAt: 0, comingSince: 0, isPaused: false, isolate: "" };

/**
 * Counts one, or `by`, in memory. Takes no time, never fails, and is never part of the work: what a killed isolate had counted in its last
 * second is lost. Labels come from code, never from a caller's text.
 */
export function count<Name extends CounterName>(env: object, name: Name, labels: LabelsOf<Name>, by = 1): void {
  if (by > 0) addCount(held.tally, name, labels, by);
  handOverSoon(env);
}

/** Measures values in memory, in the unit that the name ends in. As `count` otherwise. */
export function observe<Name extends HistogramName>(env: object, name: Name, labels: LabelsOf<Name>, ...values: number[]): void {
  addObserved(held.tally, name, labels, values);
  handOverSoon(env);
}

/**
 * Hands over a second later what has been gathered by then. Without the flag `queue_consumer_no_wait_for_wait_until` a queue would hold back
 * its next batch for that: then what is there goes at once, and the rest with the next count.
 */
function handOverSoon(env: object): void {
  if (held.isPaused || Math.abs(Date.now() - held.comingSince) < LOST_MS || !hasRecorder(env)) return;
  const waits = Cloudflare.compatibilityFlags.queue_consumer_no_wait_for_wait_until === true;
  if (!waits && Math.abs(Date.now() - held.handedAt) < GATHER_MS) return;
  held.comingSince = Date.now();
  inBackground(async () => {
    if (waits) await scheduler.wait(GATHER_MS);
    // What this turn of the event loop counts goes along.
    else await scheduler.wait(0);
    held.comingSince = 0;
    await handOver(env);
  });
}

/** False for the env of a Worker that has an object of the engine alone: it counts for nobody. */
function hasRecorder(env: object): env is EngineEnv {
  return objectsIn(env, "RECORDER") !== undefined;
}

/** Where there is nothing to wait in, counts stay until somebody comes who has. */
function inBackground(work: () => Promise<void>): void {
  const working = work().catch(() => undefined);
  try {
    waitUntil(working);
  } catch {
    held.comingSince = 0;
  }
}

/** Gives what has been counted to a recorder, one for each isolate. What a call that broke had with it is lost, and never counted twice. */
export async function handOver(env: EngineEnv): Promise<void> {
  if (isEmpty(held.tally)) return;
  const { tally } = held;
  held.tally = {};
  held.handedAt = Date.now();
  held.isolate ||= crypto.randomUUID();
  try {
    await recorderOfIsolate(env).tally(tally);
  } catch (error) {
    if (troubleOf(error) === "overloaded") addAll(held.tally, tally);
  }
}

interface Tallying {
  tally(tally: Tally): Promise<void>;
}

function recorderOfIsolate(env: EngineEnv): Tallying {
  const objects = objectBinding(env, "RECORDER");
  const id = objects.idFromName(recorderName(held.isolate, shardsOf(env)));
  return objects.get(id, placed(env)) as unknown as Tallying;
}

/** For tests: nothing is handed over by itself any more, but by `handOver`. */
export function pauseHandOver(): void {
  held.isPaused = true;
}
