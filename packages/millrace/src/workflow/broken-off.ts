import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { beginning } from "../contract/text.ts";
import { type PlatformStepName, tellBrokenOff } from "../contract/told-error.ts";
import { within } from "../contract/within.ts";
import { loggedInstance } from "../observe/log/instances.ts";
import type { Pass } from "../pass/pass.ts";
import { query } from "../store/d1/retry.ts";
import { isAborted } from "../store/d1/trouble.ts";
import { lookSoon } from "../store/instances/look.ts";

/** Time limit for making the keeper's next check due earlier: the database may be unavailable as well. */
const LOOK_LIMIT_MS = 2000;
const MAX_ERROR_CHARACTERS = 500;

/**
 * Ends a replay after an error of the platform itself. The workflow's code never receives that error: `catch { refund }` would compensate a
 * step that did not fail. The end of such a replay records no status, sends no callback and releases no turn of a lane. The method `run`
 * throws the error, and does not stay pending. A platform engine that was reset does not receive the error, and replays the run from its
 * remembered steps. A platform engine that still runs marks the instance as errored, and the keeper restarts the instance at this step. A
 * `run` that stays pending would block the platform's engine, and the keeper could not distinguish the run from an active one.
 */
export class BrokenOff {
  readonly #pass: Pass;
  readonly #rejected = Promise.withResolvers<never>();
  #isSo = false;

  constructor(pass: Pass) {
    this.#pass = pass;
    this.#rejected.promise.catch(() => undefined);
  }

  get error(): Promise<never> {
    return this.#rejected.promise;
  }

  get isSo(): boolean {
    return this.#isSo;
  }

  /**
   * Ends the replay when the platform rejects a call with its own error. The returned promise never settles, so the workflow's code does
   * not continue.
   */
  by(error: unknown, step: PlatformStepName): Promise<never> {
    if (!this.#isSo) {
      this.#isSo = true;
      this.#pass.course.end();
      const said = beginning(messageOf(error), MAX_ERROR_CHARACTERS);
      logLine("warn", { log: "broken_off", ...loggedInstance(this.#pass), step: step.name, error: said });
      // A platform engine that aborts itself recognizes its own error, and changes no status because of it.
      this.#rejected.reject(isAborted(error) ? error : new Error(tellBrokenOff(said, step)));
    }
    return new Promise(() => undefined);
  }

  /**
   * Awaits a whole replay of the workflow's code. If the platform ends the replay, the keeper checks the run soon. Without the request for
   * this check, the next check of a sleeping run may be a day away.
   */
  async orThrow<T>(replay: Promise<T>): Promise<T> {
    try {
      return await Promise.race([replay, this.error]);
    } catch (error) {
      if (!this.#isSo) throw error;
      const { env, instanceId } = this.#pass;
      await within(query(env.DB, lookSoon(instanceId)), LOOK_LIMIT_MS).catch(() => undefined);
      return this.error;
    }
  }
}
