import { DurableObject } from "cloudflare:workers";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import { type AnyLane, type Plan, plansOf } from "./definition.ts";
import { Dispatch } from "./dispatch.ts";
import type { Gate } from "./gate.ts";
import { Intake } from "./intake.ts";
import { type LaneName, parseObjectName } from "./lane-name.ts";
import type { KeptLetter } from "./letters.ts";
import { type LaneLook, look, type WaitingMessage, waiting } from "./look.ts";
import type { Posted } from "./message.ts";
import { triedNow } from "./progress.ts";
import { type LaneSent, LaneStorage } from "./storage.ts";

/** Kept, or why not: no lane of this name is in the object's list, or the object is full. */
export type SendAnswer = { sent: LaneSent[] } | { unknownLane: string; didYouMean: string | undefined } | { fullAtBytes: number };

/** What became of a person's action. Not done: why, in words. */
export type Steered = { done: true } | { done: false; reason: string };

/** Largest page of messages or letters: one answer carries 32 MiB. */
const MAX_PAGE = 100;

/**
 * One lane of one key. Its messages are on disk before their sender is answered, and its handler runs here. What is in memory can be lost
 * at any point: the alarm finds what is on disk.
 */
export class LaneObject extends DurableObject {
  protected readonly plans: ReadonlyMap<string, Plan> = new Map();
  protected readonly gate: Gate | undefined = undefined;
  #lane = new LaneStorage(this.ctx.storage);
  #dispatch = this.#dispatchOf(this.#lane);
  readonly #intake = new Intake(this.ctx.storage, (posts) => this.#keep(posts));

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env as never);
    // Whatever woke it, it goes on with what it finds.
    if (this.#lane.name) queueMicrotask(() => this.#dispatch.go());
  }

  /** Keeps messages in the order of the call, behind all that are there: all of them or none. */
  async send(posts: readonly Posted[]): Promise<SendAnswer> {
    const name = this.laneName();
    const plan = this.plans.get(name.lane);
    if (!plan) return { unknownLane: name.lane, didYouMean: nearest(name.lane, this.plans.keys()) };
    if (this.#lane.bytes > plan.maxBytes) return { fullAtBytes: plan.maxBytes };
    return { sent: await this.#intake.take(posts) };
  }

  /** How the lane stands. */
  look(): LaneLook {
    const name = this.laneName();
    return look(name, this.#lane, { isKnown: this.plans.has(name.lane), handed: this.#dispatch.handed });
  }

  /** How it stands for the routes of the engine: they know lanes of `engineLanes` alone. */
  async stand(): Promise<object | undefined> {
    return undefined;
  }

  /** What an operator does to it there: nothing here. */
  async steer(_request: object): Promise<object | undefined> {
    return undefined;
  }

  /** The messages that wait, in order, behind a place; at most 100. */
  messages({ after, limit = MAX_PAGE }: { after?: number; limit?: number } = {}): WaitingMessage[] {
    return waiting(this.#lane, after, Math.min(limit, MAX_PAGE));
  }

  /** The dead letters that are kept here, in order, behind one of them; at most 100. */
  letters({ after, limit = MAX_PAGE }: { after?: string; limit?: number } = {}): KeptLetter[] {
    return this.#lane.letters?.list(after, Math.min(limit, MAX_PAGE)) ?? [];
  }

  /** Takes a dead letter out for good. */
  removeLetter(id: string): Steered {
    if (this.#lane.letters?.handing === id) return HANDED_OVER;
    return this.#lane.letters?.remove(id) ? { done: true } : noLetter(id);
  }

  /** Sends what a dead letter holds again, behind all that waits: a new message, without the key, which is known here. */
  resendLetter(id: string): Steered {
    const { letters } = this.#lane;
    if (letters?.handing === id) return HANDED_OVER;
    const letter =
      letters &&
      this.#lane.together(() => {
        const removed = letters.remove(id);
        if (removed) this.#lane.keep([{ text: JSON.stringify(removed.body), key: null, delayMs: 0 }], this.#dispatch.closedTo, Date.now());
        return removed;
      });
    this.#dispatch.go();
    return letter ? { done: true } : noLetter(id);
  }

  /** Hands nothing more out until `resume`. What the handler has is settled as always. */
  pause(): Steered {
    if (this.#lane.progress.paused) return { done: false, reason: "The lane is paused already." };
    this.#lane.make(this.laneName());
    this.#lane.advance({ ...this.#lane.progress, paused: true }, Date.now());
    this.#dispatch.go();
    return { done: true };
  }

  /** Lets a lane go on that a person has paused, or that holds: its head has all its retries again. */
  resume(): Steered {
    const { progress } = this.#lane;
    if (!progress.paused && !progress.held) return { done: false, reason: "The lane is neither paused nor held." };
    const afresh = progress.held ? { failures: 0, dueAt: 0, held: false } : {};
    this.#lane.advance({ ...progress, ...afresh, paused: false }, Date.now());
    this.#dispatch.go();
    return { done: true };
  }

  /** Tries the head at once, whatever it waits for. A lane that holds, holds again if that fails. With an id, only if it is the head. */
  retryHead(id?: string): Steered {
    const refused =
      this.#refused(id) ?? (this.#lane.progress.paused ? { done: false, reason: "The lane is paused: resume it." } : undefined);
    if (refused) return refused;
    this.#lane.advance(triedNow(this.#lane.progress), Date.now());
    this.#dispatch.go();
    return { done: true };
  }

  /** Takes the head out: it becomes a dead letter, and the lane goes on. With an id, only if it is the head. */
  skipHead(id?: string): Steered {
    const refused = this.#refused(id);
    if (refused) return refused;
    this.#dispatch.park(this.#lane.progress, "skipped");
    this.#dispatch.go();
    return { done: true };
  }

  /** Removes all that the lane keeps, its letters too, for good. Answers whether there was anything. */
  async erase(): Promise<boolean> {
    const had = this.#lane.name !== undefined;
    const before = this.#dispatch.stop();
    // In one turn: what is sent meanwhile is kept behind it, and not erased with what was there.
    const erased = [this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()];
    this.#lane = new LaneStorage(this.ctx.storage);
    this.#dispatch = this.#dispatchOf(this.#lane, before);
    await Promise.all(erased);
    return had;
  }

  override async alarm(): Promise<void> {
    if (this.#dispatch.rang() && this.isSpent()) await this.erase();
  }

  /** True for a lane that has nothing more to remember, not even the keys of messages: all that is left of it is its name. */
  protected isSpent(): boolean {
    const { depth, letters, progress } = this.#lane;
    return depth === 0 && letters?.count === 0 && !progress.paused && !progress.held;
  }

  /** An alarm that wakes the object does not say its name, so it is kept. */
  protected laneName(): LaneName {
    return this.#lane.name ?? parseObjectName(this.ctx.id.name) ?? { lane: this.ctx.id.name ?? "", tenant: null, key: "" };
  }

  #dispatchOf(lane: LaneStorage, before?: Promise<void>): Dispatch {
    return new Dispatch({ lane, object: this.ctx, env: this.env, planOf: (name) => this.plans.get(name), gate: () => this.gate, before });
  }

  protected get kept(): LaneStorage {
    return this.#lane;
  }

  protected go(): void {
    this.#dispatch.go();
  }

  #refused(id: string | undefined): Steered | undefined {
    const [head] = this.#lane.messages(this.#lane.progress.head, 1);
    if (!head) return { done: false, reason: "The lane is empty." };
    if (id !== undefined && head.id !== id) return { done: false, reason: "The head is another message by now: look again." };
    if (this.#dispatch.handed > 0) return { done: false, reason: "The handler has the head just now: try again when it is settled." };
    return undefined;
  }

  #keep(posts: readonly Posted[]): LaneSent[] {
    this.#lane.make(this.laneName());
    const sent = this.#lane.keep(posts, this.#dispatch.closedTo, Date.now());
    this.#dispatch.go();
    return sent;
  }
}

const HANDED_OVER: Steered = { done: false, reason: "The dead letter is being handed over just now: look again." };

function noLetter(id: string): Steered {
  return { done: false, reason: `The lane keeps no dead letter ${beginning(id, 100)}.` };
}

/** The object of these lanes: `export class Lanes extends laneObject([orders]) {}`. Errors: `config_invalid`, which says what to change. */
export function laneObject(lanes: readonly AnyLane[]): typeof LaneObject {
  const plans = plansOf(lanes);
  return class extends LaneObject {
    protected override readonly plans = plans;
  };
}
