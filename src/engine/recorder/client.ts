import pRetry from "p-retry";
import type { EngineEnv } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { isTransient } from "../store/retry.ts";
import type { Recorder } from "./recorder.ts";

/** The recorder as its callers see it. Every call may be repeated: the recorder's statements name their row and fence themselves. */
export type RecorderClient = Pick<Recorder, "entries" | "runOf" | "claim" | "extend" | "giveUp" | "record" | "finish">;

/** Reaches the recorder, repeating calls over the moments in which the object restarts. What it refuses for good it refuses at once. */
export function recorderOf(env: EngineEnv): RecorderClient {
  const id = env.RECORDER.idFromName("recorder");
  const connect = () =>
    env.RECORDER.get(id, placed(env)) as unknown as Record<keyof RecorderClient, (...args: unknown[]) => Promise<never>>;
  let recorder = connect();
  const call =
    (name: keyof RecorderClient) =>
    (...args: unknown[]) =>
      pRetry(() => recorder[name](...args), {
        ...RESTART,
        shouldRetry: ({ error }) => isTransient(error),
        // A stub breaks with the object behind it.
        onFailedAttempt: () => {
          recorder = connect();
        },
      });
  const methods = ["entries", "runOf", "claim", "extend", "giveUp", "record", "finish"] as const satisfies (keyof RecorderClient)[];
  return Object.fromEntries(methods.map((name) => [name, call(name)])) as unknown as RecorderClient;
}

/** Long enough for an object to restart, short enough for the step that waits. */
const RESTART = { retries: 6, minTimeout: 50, maxTimeout: 2000, randomize: true };
