import { type EngineEnv, objectBinding } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { recorderNames } from "../contract/recorder-name.ts";
import { keeperOf } from "../keeper/client.ts";
import { handOver, pauseHandOver } from "../observe/metrics/count.ts";
import type { Recorder } from "../recorder/recorder.ts";

/**
 * Lets isolates keep what they count until `settleCounts`: a timer that hands it over a second later would write into the test that comes
 * next. Say it once, in a setup file.
 */
export function holdCounts(): void {
  pauseHandOver();
}

/** Has everything that was counted until now written, taken over and read by the keeper, without waiting for a clock. */
export async function settleCounts(env: EngineEnv): Promise<void> {
  await handOver(env);
  const objects = objectBinding(env, "RECORDER");
  for (const name of recorderNames(env)) {
    await (objects.get(objects.idFromName(name), placed(env)) as unknown as Pick<Recorder, "writeCounts">).writeCounts(true);
  }
  await keeperOf(env).readVitals();
}
