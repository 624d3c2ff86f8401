import pRetry from "p-retry";
import { type EngineEnv, objectBinding } from "../contract/bindings.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { recorderName, shardsOf } from "../contract/recorder-name.ts";
import { asUnavailable, comeBackMs, troubleOf } from "../store/d1/trouble.ts";
import type { Recorder } from "./recorder.ts";

/** A recorder as its callers see it. Every call may be repeated: the recorder's statements name their row and fence themselves. */
export type RecorderClient = Pick<Recorder, (typeof METHODS)[number]>;

const METHODS = [
  "begin",
  "history",
  "output",
  "standing",
  "claim",
  "extend",
  "giveUp",
  "refuseSkip",
  "doubtHanging",
  "doubtAgain",
  "parked",
  "fence",
  "record",
  "remember",
  "keepCaught",
  "finish",
] as const satisfies (keyof Recorder)[];

/**
 * Long enough for an object to restart, short enough for the step that waits: its time-out leaves 15 s for what is recorded behind an
 * effect.
 */
const RESTART = { retries: 6, minTimeout: 50, maxTimeout: 2000, randomize: true, maxRetryTime: 10_000 };

/**
 * Reaches the recorder of an instance. Calls are repeated over the moments in which the object restarts, and as late as it asks when it or
 * the database wants less traffic. What it refuses for good it refuses at once. Errors: `unavailable`, with a time to come back, when that
 * did not help.
 */
export function recorderOf(env: EngineEnv, instanceId: string): RecorderClient {
  const objects = objectBinding(env, "RECORDER");
  const id = objects.idFromName(recorderName(instanceId, shardsOf(env)));
  const connect = () => objects.get(id, placed(env)) as unknown as Record<keyof RecorderClient, (...args: unknown[]) => Promise<never>>;
  let recorder = connect();
  const call =
    (name: keyof RecorderClient) =>
    async (...args: unknown[]) => {
      const began = Date.now();
      const leftMs = () => began + RESTART.maxRetryTime - Date.now();
      try {
        return await pRetry(() => recorder[name](...args), {
          ...RESTART,
          shouldRetry: ({ error }) => troubleOf(error) !== "fatal" && comeBackMs(error) < leftMs(),
          onFailedAttempt: async ({ error }) => {
            // A stub breaks with the object behind it.
            recorder = connect();
            if (troubleOf(error) === "transient" || comeBackMs(error) >= leftMs()) return;
            await scheduler.wait(comeBackMs(error));
          },
        });
      } catch (error) {
        if (TOO_LARGE.test(messageOf(error))) throw tooLarge();
        throw asUnavailable(error, "The recorder");
      }
    };
  return Object.fromEntries(METHODS.map((name) => [name, call(name)])) as unknown as RecorderClient;
}

/** The platform's words for a call of more than 32 MiB. */
const TOO_LARGE = /serialized rpc (arguments|return)/i;

function tooLarge(): MillraceError {
  return new MillraceError("payload_too_large", "The step's writes are larger than 32 MiB: split them over several commits.");
}
