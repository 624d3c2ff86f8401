import { type EngineEnv, objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { recorderNames } from "../contract/recorder-name.ts";
import { keeperOf } from "../keeper/client.ts";
import { handOver, pauseHandOver } from "../observe/metrics/count.ts";
import type { Recorder } from "../recorder/recorder.ts";

/**
 * Makes isolates keep their usage counts until `settleCounts` is called. Otherwise a timer would send the counts a second later, during the
 * next test. Call `holdCounts` once, in a setup file of the tests.
 */
export function holdCounts(): void {
  pauseHandOver();
}

/** Writes all usage counts so far, and makes the keeper merge and read these counts. The function waits for no timer. */
export async function settleCounts(env: EngineEnv): Promise<void> {
  await handOver(env);
  const objects = objectBinding(env, "RECORDER");
  for (const name of recorderNames(env)) {
    await (objects.get(objects.idFromName(name), placed(env)) as unknown as Pick<Recorder, "writeCounts">).writeCounts(true);
  }
  await keeperOf(env).readVitals();
}
