import { MillraceError } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import type { RecorderClient } from "../recorder/client.ts";
import type { Standing } from "../store/instances/run.ts";
import { isClosed } from "../store/instances/status.ts";
import { patiently } from "./patiently.ts";

/**
 * How long what a pass has heard of its row holds. No effect is begun by an older word: one that slept, waited or was in its back-off asks
 * first, and steps that follow one another hear it with their own writes.
 */
export const HEARD_FOR_MS = 700;

/** What a person wants of a run: nothing, that it begins nothing for now, or that it ends. */
type Wanted = "goes on" | "paused" | "stopped";

/** Which run of its instance a pass belongs to, as the row says when it is asked first; and what a person has asked for since. */
export class WhichRun {
  readonly #recorder: RecorderClient;
  readonly #instanceId: string;
  readonly #undoes: boolean;
  #number: Promise<number> | undefined;
  #standing: Standing | undefined;
  /** A first pass needs not ask: its row was written moments ago. */
  #heardAt = Date.now();
  #complete = false;

  constructor(recorder: RecorderClient, instanceId: string, undoes: boolean) {
    this.#recorder = recorder;
    this.#instanceId = instanceId;
    this.#undoes = undoes;
  }

  /** Which run: what the pass's first write found, or its first look; 0 for an instance without a row. */
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

  /** Which run, where that needs not be asked; null where nothing was heard of the row yet. */
  async heard(): Promise<number | null> {
    return (await this.#number?.catch(() => undefined)) ?? null;
  }

  /** A write of the pass, asked for at that time, has found its row so. */
  note(standing: Standing | undefined, askedAt: number): void {
    if (!standing) return;
    this.#number ??= Promise.resolve(standing.run);
    this.#standing = standing;
    this.#heardAt = askedAt;
  }

  /**
   * What a person wants of the run, as it was heard a moment ago, or is asked `anew`. A database that does not say it takes no word of a
   * person either, and no outcome: the run goes on to its own write.
   */
  async wanted(anew = false): Promise<Wanted> {
    if (anew || Date.now() - this.#heardAt > HEARD_FOR_MS) await this.#look().catch(() => undefined);
    return this.heardLast();
  }

  /** The same, asked now: a run that is to wait must not do so for an old word. Errors: `unavailable` where the database does not say. */
  async askWanted(): Promise<Wanted> {
    await this.#look();
    return this.heardLast();
  }

  /** The same as it was heard last, however long ago. */
  async heardLast(): Promise<Wanted> {
    if (this.#undoes || !this.#standing) return "goes on";
    const { undo, status, run } = this.#standing;
    if (undo !== null || status === "terminated" || isClosed(this.#standing)) return "stopped";
    // Another run has begun, and waits for the end of this one.
    if (run !== ((await this.heard()) ?? run)) return "stopped";
    return status === "paused" ? "paused" : "goes on";
  }

  /** The action by which the instance is undone, or being undone, as it was heard last. */
  get undo(): string | null {
    return this.#standing?.undo ?? null;
  }

  /** Time has passed since anything was heard: the run slept or waited. */
  noteWaited(): void {
    this.#heardAt = 0;
  }

  /** True for a pass that the platform makes of a complete run. */
  get isComplete(): boolean {
    return this.#complete;
  }

  /** Refuses to begin an effect in such a pass: what failed in it, and was caught, fails again. */
  assertNotComplete(): void {
    if (this.#complete) throw new MillraceError("not_retryable", "The run is complete: no further step starts.");
  }

  async assertNotUndone(): Promise<void> {
    await patiently(() => this.number());
    if ((await this.wanted()) !== "stopped") return;
    const said = this.undo === null ? "was stopped" : "is undone";
    throw new MillraceError("not_retryable", `The instance ${said}, so no further step starts. To repeat its work, retry it.`);
  }

  /**
   * Refuses a pass of an undo (its own id on the platform) that is none of the present one: what a retry has done again is not taken back.
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
