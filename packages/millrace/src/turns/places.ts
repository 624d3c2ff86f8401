import type { OnFailure } from "../lanes/definition.ts";
import type { RunEnd } from "../lanes/turns-stub.ts";

/** An instance that has had its turn in a lane and that blocks the next message. */
export interface Place {
  readonly id: string;
  /** The time when the instance got its turn, in milliseconds since 1970. */
  readonly since: number;
  /** The error of the instance's run; null while it runs. */
  readonly failed: string | null;
}

interface Kept {
  readonly places: readonly Place[];
  /** True while the lane waits for an operator because an instance failed. */
  readonly held: boolean;
}

const NONE: Kept = { places: [], held: false };

/**
 * The stored list of one lane's running instances. The end of an instance's run frees its place in the lane. The lane's policy decides
 * about the place of a failed run: `park` frees the place, `block` keeps it until the instance is fixed, `hold` stops the lane.
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

  /** Number of further instances of the lane that can start now. */
  get room(): number {
    return this.held ? 0 : Math.max(0, this.#most - this.all.length);
  }

  take(id: string, since: number): void {
    if (!this.#has(id)) this.#keep({ ...this.#kept, places: [...this.all, { id, since, failed: null }] });
  }

  /** Records that a run has ended, or that an operator has closed its instance. */
  end(id: string, { status, error }: RunEnd): void {
    const place = this.#has(id);
    if (!place) return;
    if (status === "skipped" && place.failed !== null) this.letGo([id]);
    else if (status !== "errored" || this.#onFailure === "park") this.free([id]);
    else if (place.failed === null) this.#mark(id, error ?? "It has failed.", this.held || this.#onFailure === "hold");
  }

  /** Records that an instance of the lane is running, perhaps again. */
  goesOn(id: string): void {
    if (this.#has(id)?.failed != null) this.#mark(id, null, this.held);
  }

  /** Frees the lane's places of the given instances. */
  free(ids: readonly string[]): void {
    if (ids.some((id) => this.#has(id))) this.#keep({ ...this.#kept, places: this.all.filter(({ id }) => !ids.includes(id)) });
  }

  /** The lane's failed instances, in the order of their turns. */
  get failed(): string[] {
    return this.all.filter(({ failed }) => failed !== null).map(({ id }) => id);
  }

  /** Frees the places of failed instances about which an operator has decided. A held lane continues when no failed instance is left. */
  letGo(ids: readonly string[]): void {
    this.free(ids);
    if (this.held && this.failed.length === 0) this.#keep({ ...this.#kept, held: false });
  }

  #mark(id: string, failed: string | null, held: boolean): void {
    this.#keep({ places: this.all.map((place) => (place.id === id ? { ...place, failed } : place)), held });
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
