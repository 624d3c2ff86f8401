import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { attemptToken, type EntryKey } from "../contract/ids.ts";
import { type RecorderClient, recorderOf } from "../recorder/client.ts";
import type { Attempt, Entry, RecordedClass } from "../recorder/entry.ts";
import { describeFailure, type Failure } from "./failure.ts";

/**
 * A run younger than this cannot have run before: the platform takes longer to lose and restart one. Inside it a first
 * step needs no look into the inbox (a `keyed` upstream, which remembers the key for hours, would tell a repeat as well).
 */
export const FRESH_MS = 2000;

/** What the names of steps begin with that take others back. */
export const UNDO_PREFIX = "undo ";

/** One call of a guarded step: where it stands in the run. */
export interface Place {
  /** The step's name in the code. */
  name: string;
  /** Tells parallel calls of one step apart; "" for a step that runs once. */
  item: string;
  /** The name on the platform. */
  label: string;
  position: number;
  /** Whether the code could take it back. */
  undoable?: boolean;
  /** The first generation that counts here; default 1. */
  since?: number;
}

/** One pass of the platform through a workflow's code: from its start, or again after a crash, a sleep or a restart. */
export class Run {
  readonly recorder: RecorderClient;
  readonly #failures = new Map<string, { error: unknown; last: boolean; failure: Failure }>();
  readonly #rejected = new Map<unknown, string>();
  readonly #names: string[] = [];
  readonly #labels = new Set<string>();
  readonly #startedAt = Date.now();
  #replayed = false;
  #undoable = false;
  #announced = false;
  #entries: Promise<Entry[]> | undefined;

  constructor(
    readonly env: EngineEnv,
    readonly workflow: string,
    readonly instanceId: string,
    readonly envelope: Envelope,
    /** When it was created for the first time; undefined when that may not be the first time. */
    readonly createdAt: Date | undefined,
    /** The events that a route signals to waiting runs; undefined when no catalog has said. */
    readonly signalled?: ReadonlySet<string>,
  ) {
    this.recorder = recorderOf(env);
  }

  /** Takes the next place in the run. Errors: `nondeterministic_steps` when one call is made twice. */
  place(name: string, item: string, undoable = false): Place {
    if (undoable) this.#undoable = true;
    const label = item ? `${name} [${item}]` : name;
    if (label.length > 256)
      throw new MillraceError(
        "nondeterministic_steps",
        `The step name "${label.slice(0, 60)}…" is longer than 256 characters: shorten it or its key.`,
      );
    if (name.startsWith(UNDO_PREFIX)) {
      throw new MillraceError(
        "config_invalid",
        `The step name "${name.slice(0, 60)}" begins with "${UNDO_PREFIX}", as the steps do that take others back: call it otherwise.`,
      );
    }
    if (this.#labels.has(label)) {
      throw new MillraceError(
        "nondeterministic_steps",
        `The step "${label}" is called twice in one run. Give each call its own name, or a key that comes from its data: { key: item.id }.`,
      );
    }
    this.#labels.add(label);
    if (!this.#names.includes(name)) this.#names.push(name);
    return { name, item, label, position: this.#names.indexOf(name), undoable };
  }

  /** An earlier step was answered without running, by the platform or by the inbox: this pass is not the first, and what was believed fresh is not. */
  noteReplay(): void {
    if (!this.#replayed) this.#entries = undefined;
    this.#replayed = true;
  }

  /** An attempt at a step threw; `last` when the platform will not try it again. */
  noteFailure(label: string, attempt: number, error: unknown, last: boolean): void {
    this.#failures.set(label, { error, last, failure: describeFailure(label, attempt, error) });
  }

  /** The error of a step's last attempt in this pass, from which the next delay is read. */
  lastError(label: string): unknown {
    return this.#failures.get(label)?.error;
  }

  /** The platform gave a step up with this error. */
  noteRejected(label: string, error: unknown): void {
    this.#rejected.set(error, label);
  }

  /**
   * Why the run ended with this error: its step's last attempt, or the workflow's own code. Undefined when the platform gave
   * a step up for reasons of its own (an eviction, a deploy): it will pass here again, and if it does not, the keeper asks it.
   */
  failureBehind(error: unknown): Failure | undefined {
    const label = this.#rejected.get(error);
    if (label === undefined) return describeFailure("", 1, error);
    const seen = this.#failures.get(label);
    return seen?.last ? seen.failure : undefined;
  }

  /** True when the platform, or the walk of an undo, gave a step up in this pass. */
  hasRejected(): boolean {
    return this.#rejected.size > 0;
  }

  /** True when some step of this pass could be taken back: what that needs must be kept. */
  canBeUndone(): boolean {
    return this.#undoable;
  }

  /** A write went through that also said that the instance runs. */
  noteAnnounced(): void {
    this.#announced = true;
  }

  /** The instance waited: its next write says that it runs again. */
  noteWaited(): void {
    this.#announced = false;
  }

  /**
   * What the inbox already holds for a step that may have run before; undefined when it certainly has not, which costs
   * no round trip. One look per pass serves all its steps. Errors: `nondeterministic_steps`.
   */
  async earlier(place: Place, platformAttempt: number): Promise<Entry | undefined> {
    if (!this.#mayHaveRun(platformAttempt)) {
      this.#entries ??= Promise.resolve([]);
      return undefined;
    }
    const entries = await this.entries(platformAttempt > 1);
    this.#assertSameSteps(entries, place);
    const { name, item, since = 1 } = place;
    return entries.findLast((entry) => entry.step === name && entry.item === item && entry.generation >= since);
  }

  /** Everything recorded for the instance, newest generation last: looked up once in a pass, or anew. */
  entries(anew = false): Promise<Entry[]> {
    if (anew) this.#entries = undefined;
    this.#entries ??= this.recorder.entries(this.instanceId);
    return this.#entries;
  }

  /** A new attempt at a step's effect, with a token of its own. */
  attempt(place: Place, effectClass: RecordedClass, generation = place.since ?? 1): Attempt {
    const key: EntryKey = { instanceId: this.instanceId, step: place.name, item: place.item, generation };
    const { position, undoable = false } = place;
    return { key, position, class: effectClass, token: attemptToken(), epoch: 1, startsRun: !this.#announced, undoable };
  }

  #mayHaveRun(platformAttempt: number): boolean {
    if (platformAttempt > 1) return true;
    if (this.#entries) return true;
    return this.#replayed || this.createdAt === undefined || this.#startedAt - this.createdAt.getTime() > FRESH_MS;
  }

  /** A step recorded at a position where the code now names another one means that the names depend on time or chance. */
  #assertSameSteps(entries: readonly Entry[], place: Place): void {
    const other = entries.find((entry) => this.#names[entry.position] !== undefined && this.#names[entry.position] !== entry.step);
    if (!other) return;
    throw movedStep(place);
  }
}

/** The error for a step that stands where an earlier pass recorded another one. */
export function movedStep(place: Place): MillraceError {
  return new MillraceError(
    "nondeterministic_steps",
    `At or before "${place.label}", an earlier pass of this instance recorded another step in this place. Step names must be the same on every pass: use literals, and put data into the key.`,
  );
}
