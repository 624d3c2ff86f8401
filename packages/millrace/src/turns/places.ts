import type { OnFailure } from "../lanes/definition.ts";
import type { RunEnd } from "../lanes/turns-stub.ts";

/** An instance that has had its turn in a lane and that blocks the next message. */
export interface Place {
  readonly id: string;
  /** The time when the instance got its turn, in milliseconds since 1970. */
  readonly since: number;
  /** The error of the instance's run; null while the run is in progress. */
  readonly failed: string | null;
  /** The number of the failed run while the database may not have its end yet; otherwise 0. */
  readonly run: number;
}

interface Kept {
  readonly places: readonly Place[];
  /** True while the lane waits for an operator because an instance failed. */
  readonly held: boolean;
}

const NONE: Kept = { places: [], held: false };

/**
 * The stored list of one lane's running instances. When a run succeeds or is ended by an operator, its instance is removed from the list.
 * After a failed run, the policy `park` removes the instance. The policy `block` keeps the instance in the list until an operator has fixed
 * it. The policy `hold` stops the lane.
 */
export class Places {
  readonly #kv: SyncKvStorage;
  readonly #most: number;
  readonly #onFailure: OnFailure;
  #kept: Kept;

  constructor(kv: SyncKvStorage, { concurrency, onFailure }: { concurrency: number; onFailure: OnFailure }) {
    this.#kv = kv;
    this.#most = concurrency;
    this.#onFailure = onFailure;
    this.#kept = kv.get<Kept>("places") ?? NONE;
  }

  get all(): readonly Place[] {
    return this.#kept.places;
  }

  get held(): boolean {
    return this.#kept.held;
  }

  /** The count of further instances of the lane that can start now. */
  get room(): number {
    return this.held ? 0 : Math.max(0, this.#most - this.all.length);
  }

  take(id: string, since: number): void {
    if (!this.#has(id)) this.#keep({ ...this.#kept, places: [...this.all, { id, since, failed: null, run: 0 }] });
  }

  /** Records that an instance's run has ended, or that an operator has closed the instance. */
  end(id: string, { status, error, run }: RunEnd): void {
    const place = this.#has(id);
    if (!place) return;
    if (status === "skipped") this.letGo([id]);
    else if (status !== "errored" || this.#onFailure === "park") this.free([id]);
    else if (place.failed === null || place.run !== run)
      this.#mark({ ...place, failed: place.failed ?? error ?? "It has failed.", run }, this.held || this.#onFailure === "hold");
  }

  /**
   * Records that an instance of the lane is running according to the database, for example after an operator's retry. The database may not
   * have the end of the failed run yet.
   */
  goesOn(id: string, run: number): void {
    const place = this.#has(id);
    if (place && place.failed !== null && run > place.run) this.#mark({ ...place, failed: null, run: 0 }, this.held);
  }

  /** Removes the given instances from the list of running instances. */
  free(ids: readonly string[]): void {
    if (ids.some((id) => this.#has(id))) this.#keep({ ...this.#kept, places: this.all.filter(({ id }) => !ids.includes(id)) });
  }

  /** The lane's failed instances, in the order of their turns. */
  get failed(): string[] {
    return this.all.filter(({ failed }) => failed !== null).map(({ id }) => id);
  }

  /**
   * Removes failed instances about which an operator has decided from the list. A held lane continues when the list contains no failed
   * instance.
   */
  letGo(ids: readonly string[]): void {
    this.free(ids);
    if (this.held && this.failed.length === 0) this.#keep({ ...this.#kept, held: false });
  }

  #mark(marked: Place, held: boolean): void {
    this.#keep({ places: this.all.map((place) => (place.id === marked.id ? marked : place)), held });
  }

  #has(id: string): Place | undefined {
    return this.all.find((place) => place.id === id);
  }

  #keep(kept: Kept): void {
    this.#kept = kept;
    if (kept.places.length === 0 && !kept.held) this.#kv.delete("places");
    else this.#kv.put("places", kept);
  }
}
