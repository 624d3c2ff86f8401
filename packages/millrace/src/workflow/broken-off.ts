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

/**
 * Time limit for the write that makes the keeper's next check due earlier. The limit is needed because the database may be unavailable too.
 */
const LOOK_LIMIT_MS = 2000;
const MAX_ERROR_CHARACTERS = 500;

/**
 * Ends a replay after an error of the platform itself. The workflow's code never receives this error, because a block such as `catch {
 * refund }` would compensate a step that did not fail. The end of the replay records no status, sends no callback and ends no turn in a
 * lane. The workflow's method `run` throws the error. A platform engine that was reset does not receive the error, and replays the run from
 * the steps that it has stored. A platform engine that still runs marks the instance as errored, and the keeper restarts the instance at
 * this step. A pending `run` would block the platform's engine, and the keeper could not distinguish the run from an active run.
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
   * Ends the replay after the platform rejects a call with an error of the platform. The returned promise never settles, so the workflow's
   * code does not continue.
   */
  by(error: unknown, step: PlatformStepName): Promise<never> {
    if (!this.#isSo) {
      this.#isSo = true;
      this.#pass.course.end();
      const said = beginning(messageOf(error), MAX_ERROR_CHARACTERS);
      logLine("warn", { log: "broken_off", ...loggedInstance(this.#pass), step: step.name, error: said });
      // If a platform engine aborts itself, it recognizes its own error and changes no status.
      this.#rejected.reject(isAborted(error) ? error : new Error(tellBrokenOff(said, step)));
    }
    return new Promise(() => undefined);
  }

  /**
   * Awaits a whole replay of the workflow's code. If the platform ends the replay, the function requests an early check of the run by the
   * keeper. Without an early check, the keeper may check a sleeping run only after a day.
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
