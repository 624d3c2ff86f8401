import pRetry from "p-retry";
import type { EngineEnv } from "../contract/bindings.ts";
import { isTransient } from "../store/retry.ts";
import type { Recorder } from "./recorder.ts";

/** The recorder as its callers see it. Every call may be repeated: the recorder's statements name their row and fence themselves. */
export type RecorderClient = Pick<Recorder, "entries" | "claim" | "extend" | "giveUp" | "record" | "finish">;

/** Reaches the recorder, repeating calls over the moments in which the object restarts. What it refuses for good it refuses at once. */
export function recorderOf(env: EngineEnv): RecorderClient {
  const call =
    <Name extends keyof RecorderClient>(name: Name) =>
    (...args: Parameters<RecorderClient[Name]>) =>
      pRetry(
        // A stub breaks with the object behind it, so each try takes a new one.
        () =>
          (env.RECORDER.get(env.RECORDER.idFromName("recorder")) as unknown as Record<Name, (...a: unknown[]) => Promise<never>>)[name](
            ...args,
          ),
        { retries: 6, minTimeout: 50, maxTimeout: 2000, randomize: true, shouldRetry: ({ error }) => isTransient(error) },
      );
  return {
    entries: call("entries"),
    claim: call("claim"),
    extend: call("extend"),
    giveUp: call("giveUp"),
    record: call("record"),
    finish: call("finish") as unknown as RecorderClient["finish"],
  };
}
