import type { DurableObject } from "cloudflare:workers";
import pRetry from "p-retry";
import { type EngineEnv, objectBinding } from "../contract/bindings.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { recorderName } from "../contract/recorder-name.ts";
import { asUnavailable, comeBackMs, troubleOf } from "../store/d1/trouble.ts";
import type { Recorder } from "./recorder.ts";

/** The client of a recorder. Every call may be repeated, because each statement addresses its row by key and is fenced. */
export type RecorderClient = Omit<Recorder, "accept" | "tally" | "writeCounts" | keyof DurableObject>;

/**
 * The retries of a call while a recorder restarts. All retries together take less than the 15 s that a step's timeout reserves for the
 * record of an effect.
 */
const RESTART = { retries: 6, minTimeout: 50, maxTimeout: 2000, randomize: true, maxRetryTime: 10_000 };

/**
 * A client for the recorder of an instance. Calls are repeated while the object restarts, and after the delay that the object or the
 * database requests. Fatal errors are not repeated. Errors: `unavailable`, with a retry time.
 */
export function recorderOf(env: EngineEnv, instanceId: string): RecorderClient {
  const objects = objectBinding(env, "RECORDER");
  const id = objects.idFromName(recorderName(env, instanceId));
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
            // A stub cannot be used again after its object has thrown an error.
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
  // An object with a function `then` would be awaited like a promise.
  return new Proxy({} as RecorderClient, { get: (_, name) => (name === "then" ? undefined : call(name as keyof RecorderClient)) });
}

/** Matches the platform's error for a call whose arguments or result exceed 32 MiB. */
const TOO_LARGE = /serialized rpc (arguments|return)/i;

function tooLarge(): MillraceError {
  return new MillraceError("payload_too_large", "The step's writes are larger than 32 MiB: split them over several commits.");
}
