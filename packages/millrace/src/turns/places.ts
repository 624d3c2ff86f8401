import type { OnFailure } from "../lanes/definition.ts";
import type { RunEnd } from "../lanes/turns-stub.ts";

/** An instance that has had its turn and keeps the next ones from theirs. */
export interface Place {
  /** The instance's id. */
  readonly id: string;
  /** When it got its turn, in milliseconds since 1970. */
  readonly since: number;
  /** Why its run failed; null while it is under way. */
  readonly failed: string | null;
}

interface Kept {
  readonly places: readonly Place[];
  /** True when the lane waits for a person, because an instance failed. */
  readonly held: boolean;
}

const NONE: Kept = { places: [], held: false };

/**
 * The instances of one lane that are under way, as they are on disk. A run's end frees its place; one that failed is, by the lane's policy,
 * an end like any other (`park`), keeps its place until it is mended (`block`), or stops the lane (`hold`).
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

  /** Instances that may have their turn now. */
  get room(): number {
    return this.held ? 0 : Math.max(0, this.#most - this.all.length);
  }

  /** An instance has its turn. */
  take(id: string, since: number): void {
    if (!this.#has(id)) this.#keep({ ...this.#kept, places: [...this.all, { id, since, failed: null }] });
  }

  /** A run of an instance has ended, or a person has closed it, and so lets it go. */
  end(id: string, { status, error }: RunEnd): void {
    const place = this.#has(id);
    if (!place) return;
    if (status === "skipped" && place.failed !== null) this.letGo([id]);
    else if (status !== "errored" || this.#onFailure === "park") this.free([id]);
    else if (place.failed === null) this.#mark(id, error ?? "It has failed.", this.held || this.#onFailure === "hold");
  }

  /** An instance is under way, perhaps again. */
  goesOn(id: string): void {
    if (this.#has(id)?.failed != null) this.#mark(id, null, this.held);
  }

  /** These keep nobody from their turn any more. */
  free(ids: readonly string[]): void {
    if (ids.some((id) => this.#has(id))) this.#keep({ ...this.#kept, places: this.all.filter(({ id }) => !ids.includes(id)) });
  }

  /** Those that failed, in the order in which they had their turns. */
  get failed(): string[] {
    return this.all.filter(({ failed }) => failed !== null).map(({ id }) => id);
  }

  /** A person has decided about these that failed: they keep their places no more. A lane that is held goes on when none is left. */
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
