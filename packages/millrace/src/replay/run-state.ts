import pRetry from "p-retry";
import { MillraceError } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import type { RecorderClient } from "../recorder/client.ts";
import type { Standing } from "../store/instances/run.ts";
import { type InstanceStatus, isClosed } from "../store/instances/status.ts";

/**
 * How long a run uses a status of its instance's row, in milliseconds. No effect begins with an older status. Therefore a run that slept,
 * waited or was in a back-off reads the status first. Consecutive steps receive the status with their own writes.
 */
export const STATUS_VALID_MS = 700;

/** An operator's decision about a run: no decision, pause, or stop. */
type Decision = "continue" | "paused" | "stopped";

/** The run to which a replay belongs, according to the first read of the instance's row, and the decisions of operators since this read. */
export class RunState {
  readonly #recorder: RecorderClient;
  readonly #instanceId: string;
  readonly #undoes: boolean;
  #number: Promise<number> | undefined;
  #standing: Standing | undefined;
  /** The time when this replay last received the status. A first replay needs no read, because its row was written moments ago. */
  #heardAt = Date.now();
  #complete = false;

  constructor(recorder: RecorderClient, instanceId: string, undoes: boolean) {
    this.#recorder = recorder;
    this.#instanceId = instanceId;
    this.#undoes = undoes;
  }

  /** Records that the replay is the first of its instance, so that the number of its run needs no read. */
  noteFirst(): void {
    this.#number = Promise.resolve(1);
  }

  /** The run's number, which the replay reads before the code begins. The number is 0 for an instance without a row. */
  number(): Promise<number> {
    this.#number ??= this.#look().then(
      (standing) => {
        this.#complete = standing?.status === "complete";
        return standing?.run ?? 0;
      },
      (error) => {
        this.#number = undefined;
        throw error;
      },
    );
    return this.#number;
  }

  /** Records the status that a write returned. `askedAt`: the time at which the write was sent. */
  note(standing: Standing | undefined, askedAt: number): void {
    if (!standing) return;
    this.#standing = standing;
    this.#heardAt = askedAt;
  }

  /**
   * An operator's decision. The decision is read from the database if the last status is too old, or if `anew` is true. If the database is
   * unavailable, no decision and no outcome can be written, so the run continues up to its next write.
   */
  async decision(anew = false): Promise<Decision> {
    if (anew || Date.now() - this.#heardAt > STATUS_VALID_MS) await this.#look().catch(() => undefined);
    return this.lastDecision();
  }

  /** An operator's decision, always read from the database, because a run must not wait because of an old status. Errors: `unavailable`. */
  async readDecision(): Promise<Decision> {
    await this.#look();
    return this.lastDecision();
  }

  /** The operator's decision according to the last received status, even if this status is old. */
  async lastDecision(): Promise<Decision> {
    if (this.#undoes || !this.#standing) return "continue";
    const { undo, status, run } = this.#standing;
    if (undo !== null || status === "terminated" || isClosed(this.#standing)) return "stopped";
    // If another run has begun, this run must end, because the other run waits for the end of this run.
    if (run !== (await this.number())) return "stopped";
    return status === "paused" ? "paused" : "continue";
  }

  /** True if this run has the status in the database, or if the instance has no row, as after a start through a wrong binding. */
  async isAt(status: InstanceStatus): Promise<boolean> {
    const [standing, number] = [await this.#look(), await this.number()];
    return standing === undefined || (standing.run === number && standing.status === status);
  }

  get undo(): string | null {
    return this.#standing?.undo ?? null;
  }

  noteWaited(): void {
    this.#heardAt = 0;
  }

  /** True for a replay of a complete run, also if another replay has completed the run meanwhile. */
  get isComplete(): boolean {
    return this.#complete || this.#standing?.status === "complete";
  }

  /**
   * Refuses to begin an effect in a replay of a complete run. An effect without an outcome failed in that run, and the code caught the
   * failure, so the code catches this error too.
   */
  assertNotComplete(): void {
    if (this.isComplete) throw new MillraceError("not_retryable", "The run is complete: no further step starts.");
  }

  async assertNotUndone(): Promise<void> {
    await patiently(() => this.number());
    if ((await this.decision()) !== "stopped") return;
    const said = this.undo === null ? "was stopped" : "is undone";
    throw new MillraceError("not_retryable", `The instance ${said}, so no further step starts. To repeat its work, retry it.`);
  }

  /**
   * Refuses a replay that belongs to an earlier undo, so that the replay does not undo effects that a retry has executed again. `own` is
   * the undo's id on the platform.
   */
  async assertUndoes(own: string): Promise<void> {
    await patiently(() => this.number());
    if (this.undo !== null && platformId(this.#instanceId, this.undo) === own) return;
    throw new MillraceError("not_retryable", "This undo has ended: the instance was retried since.");
  }

  async #look(): Promise<Standing | undefined> {
    const askedAt = Date.now();
    const standing = await this.#recorder.standing(this.#instanceId);
    this.#standing = standing;
    this.#heardAt = askedAt;
    return standing;
  }
}

/** Repeats a failed database read in code between steps, because the platform retries only steps. */
export function patiently<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 20, minTimeout: 100, maxTimeout: 30_000, randomize: true });
}
