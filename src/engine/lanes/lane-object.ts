import { DurableObject } from "cloudflare:workers";
import { messageOf } from "../contract/errors.ts";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import { type AnyLane, type LaneLetter, type Plan, planOf } from "./definition.ts";
import { handOut } from "./hand-out.ts";
import { type LaneName, parseObjectName } from "./lane-name.ts";
import { type KeptLetter, Letters, MAX_ERROR_CHARACTERS } from "./letters.ts";
import { type LaneLook, look, type WaitingMessage, waiting } from "./look.ts";
import type { Posted } from "./message.ts";
import { advanced, attemptsOf, dueAtOf, follow, type Outcome } from "./progress.ts";
import { type Kept, LaneStorage } from "./storage.ts";

/** What became of a message that was sent: its id, and whether its idempotency key was known, so that nothing new was kept. */
export interface LaneSent {
  id: string;
  duplicate: boolean;
}

export type SendAnswer = { sent: LaneSent[] } | { unknownLane: string; didYouMean: string | undefined };

/** What became of a person's action. Not done: why, in words. */
export type Steered = { done: true } | { done: false; reason: string };

/** A lane that is not empty has an alarm this far ahead, in milliseconds: what was in memory alone can be lost at any point. */
const FALLBACK_MS = 10_000;

/**
 * One lane of one key. Its messages are on disk before their sender is answered; the handler runs here, one batch at a time; the head is
 * removed by one write once it is settled. What is in memory can be lost at any point: the alarm finds what is on disk.
 */
export class LaneObject extends DurableObject {
  protected readonly plans: ReadonlyMap<string, Plan> = new Map();
  readonly #lane = new LaneStorage(this.ctx.storage);
  readonly #letters = new Letters(this.ctx.storage.sql);
  /** True until the first head that was found here is settled. */
  #woken = !this.#lane.isEmpty;
  /** The messages that the handler has. */
  #handed: readonly Kept[] = [];
  #running = false;
  #alarmAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Keeps messages in the order of the call, behind all that are there. */
  send(posts: readonly Posted[]): SendAnswer {
    const name = this.#name();
    if (!this.plans.has(name.lane)) return { unknownLane: name.lane, didYouMean: nearest(name.lane, this.plans.keys()) };
    const sent = this.#lane.keep(name, posts, Date.now());
    this.#go();
    return { sent };
  }

  /** How the lane stands. */
  look(): LaneLook {
    const name = this.#name();
    return look(name, this.#lane, {
      isKnown: this.plans.has(name.lane),
      handed: this.#handed.length,
      letters: this.#lane.made ? this.#letters.count : 0,
    });
  }

  /** The messages that wait, in order, behind one of them. */
  messages({ after, limit = 100 }: { after?: number; limit?: number } = {}): WaitingMessage[] {
    return waiting(this.#lane, after, Math.min(limit, 1000));
  }

  /** The dead letters, in order, behind one of them. */
  letters({ after, limit = 100 }: { after?: string; limit?: number } = {}): KeptLetter[] {
    return this.#lane.made ? this.#letters.list(after, Math.min(limit, 1000)) : [];
  }

  /** Takes a dead letter out for good; undefined when there is none of this id. */
  removeLetter(id: string): KeptLetter | undefined {
    return this.#lane.made ? this.#letters.remove(id) : undefined;
  }

  /** Hands nothing more out until `resume`. What the handler has is settled as always. */
  pause(): Steered {
    if (this.#lane.progress.paused) return { done: false, reason: "The lane is paused already." };
    this.#lane.make(this.#name());
    this.#lane.advance({ ...this.#lane.progress, paused: true }, Date.now());
    return { done: true };
  }

  /** Lets a lane go on that a person has paused, or that holds: its head has all its retries again. */
  resume(): Steered {
    const { progress } = this.#lane;
    if (!progress.paused && !progress.held) return { done: false, reason: "The lane is neither paused nor held." };
    const afresh = progress.held ? { failures: 0, dueAt: 0, held: false } : {};
    this.#lane.advance({ ...progress, ...afresh, paused: false }, Date.now());
    this.#go();
    return { done: true };
  }

  /** Tries the head at once, whatever it waits for. A lane that holds, holds again if that fails. */
  retryHead(id?: string): Steered {
    const refused = this.#refused(id);
    if (refused) return refused;
    const { progress } = this.#lane;
    if (progress.paused) return { done: false, reason: "The lane is paused: resume it." };
    const delivered = progress.delivered.map(([one, attempts, dueAt]): [number, number, number] => [
      one,
      attempts,
      one === progress.head ? 0 : dueAt,
    ]);
    this.#lane.advance({ ...progress, delivered, dueAt: 1, held: false }, Date.now());
    this.#go();
    return { done: true };
  }

  /** Takes the head out: it becomes a dead letter, and the lane goes on. */
  skipHead(id?: string): Steered {
    const refused = this.#refused(id);
    if (refused) return refused;
    this.#park(advanced(this.#lane.progress, this.#lane.progress.head), "skipped");
    this.#go();
    return { done: true };
  }

  override alarm(): void {
    this.#alarmAt = undefined;
    const plan = this.plans.get(this.#lane.name?.lane ?? "");
    if (plan) this.#lane.forget(plan.rememberMs, Date.now());
    this.#go();
  }

  #name(): LaneName {
    // An alarm that wakes the object does not say its name.
    return this.#lane.name ?? parseObjectName(this.ctx.id.name) ?? { lane: this.ctx.id.name ?? "", tenant: null, key: "" };
  }

  #refused(id: string | undefined): Steered | undefined {
    const [head] = this.#lane.read(this.#lane.progress.head, 1);
    if (!head) return { done: false, reason: "The lane is empty." };
    if (id !== undefined && head.id !== id) return { done: false, reason: "The head is another message by now: look again." };
    if (this.#handed.length > 0) return { done: false, reason: "The handler has the head just now: try again when it is settled." };
    return undefined;
  }

  /** Sees to it that what is due is done, now or by the alarm. */
  #go(): void {
    const plan = this.plans.get(this.#lane.name?.lane ?? "");
    if (!plan) return;
    if (!this.#running) {
      this.#running = true;
      queueMicrotask(() => void this.#drain(plan));
    }
    this.#arm();
  }

  async #drain(plan: Plan): Promise<void> {
    try {
      void this.#letters.handOff(plan, this.env).finally(() => this.#arm());
      for (let batch = this.#take(plan); batch.length > 0; batch = this.#take(plan)) await this.#deliver(plan, batch);
    } catch (error) {
      console.error(JSON.stringify({ log: "lane_failed", lane: plan.name, error: messageOf(error) }));
    } finally {
      this.#handed = [];
      this.#running = false;
      this.#arm();
    }
  }

  /** The messages that may be handed out now. */
  #take(plan: Plan): Kept[] {
    const { progress } = this.#lane;
    const now = Date.now();
    if (this.#lane.isEmpty || progress.paused || progress.held || progress.dueAt > now) return [];
    const messages = this.#lane.read(progress.head, progress.aloneTo >= progress.head || this.#woken ? 1 : plan.batchSize);
    const wait = messages.findIndex((one) => this.#dueAt(one) > now);
    return wait === -1 ? messages : messages.slice(0, wait);
  }

  #dueAt({ sequence, dueAt }: Kept): number {
    const { progress } = this.#lane;
    // A person who wants the head now has said so by a moment long ago.
    return sequence === progress.head && progress.dueAt > 0 ? progress.dueAt : Math.max(dueAt, dueAtOf(progress, sequence));
  }

  async #deliver(plan: Plan, batch: readonly Kept[]): Promise<void> {
    const { progress } = this.#lane;
    const sequences = batch.map(({ sequence }) => sequence);
    if (this.#woken) {
      this.#woken = false;
      if (progress.trying === progress.head) {
        const each = { each: ["retry" as const], delayMs: [undefined] };
        return this.#settle(plan, { sequences, settled: each, error: "The object ended while the handler had this message." });
      }
      this.#lane.advance({ ...progress, trying: progress.head }, Date.now());
    }
    this.#handed = batch;
    const handed = batch.map((one) => ({ ...one, attempts: attemptsOf(progress, one.sequence) + 1 }));
    const metrics = () => {
      const { bytes, oldestAt } = this.#lane.backlog();
      return {
        backlogCount: this.#lane.depth,
        backlogBytes: bytes,
        ...(oldestAt !== null && { oldestMessageTimestamp: new Date(oldestAt) }),
      };
    };
    const { settled, thrown } = await handOut(plan, handed, { env: this.env, exports: this.ctx.exports, metrics });
    this.#handed = [];
    const error = thrown === undefined ? null : beginning(messageOf(thrown), MAX_ERROR_CHARACTERS);
    this.#settle(plan, { sequences, settled, error });
  }

  #settle(plan: Plan, outcome: Outcome): void {
    const now = Date.now();
    // What a person said meanwhile stands in the lane's progress as it is now.
    const { progress, parks } = follow(this.#lane.progress, outcome, plan, now);
    if (parks) this.#park(progress, "exhausted");
    else this.#lane.advance(progress, now);
    this.#arm();
  }

  #park(progress: Parameters<LaneStorage["advance"]>[0], reason: LaneLetter["reason"]): void {
    const now = Date.now();
    const [head] = this.#lane.read(progress.head, 1);
    if (!head) return;
    const letter: LaneLetter = {
      ...this.#name(),
      id: head.id,
      body: head.body,
      idempotencyKey: head.key,
      reason,
      attempts: attemptsOf(progress, head.sequence),
      error: progress.error,
      sentAt: head.sentAt,
      parkedAt: now,
    };
    const dueAt = this.plans.get(letter.lane)?.onDeadLetter ? now : null;
    this.#lane.advance(advanced(progress, progress.head + 1), now, () => this.#letters.add(head.sequence, letter, dueAt));
    const plan = this.plans.get(letter.lane);
    if (plan) void this.#letters.handOff(plan, this.env).finally(() => this.#arm());
  }

  /** An alarm for what is due next, and a timer where that is soon. It is a written row, so one that rings earlier is left as it is. */
  #arm(): void {
    const now = Date.now();
    const dueAt = this.#nextAt(now);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (dueAt === undefined) return;
    const isSoon = dueAt - now <= FALLBACK_MS;
    if (isSoon && dueAt > now) this.#timer = setTimeout(() => this.#go(), dueAt - now);
    const at = isSoon ? now + FALLBACK_MS : dueAt;
    if (this.#alarmAt !== undefined && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    void this.ctx.storage.setAlarm(at);
  }

  #nextAt(now: number): number | undefined {
    const { progress } = this.#lane;
    const times: number[] = [];
    const [head] = progress.paused || progress.held ? [] : this.#lane.read(progress.head, 1);
    if (head) times.push(Math.max(now, this.#dueAt(head)));
    const letter = this.#lane.made ? this.#letters.dueAt : undefined;
    if (letter !== undefined) times.push(Math.max(now, letter));
    const plan = this.plans.get(this.#lane.name?.lane ?? "");
    const forgets = plan && this.#lane.forgetsAt(plan.rememberMs);
    if (forgets !== undefined) times.push(forgets);
    return times.length > 0 ? Math.min(...times) : undefined;
  }
}

/** The object of these lanes: `export class Lanes extends laneObject([orders]) {}`. Errors: `config_invalid`, which says what to change. */
export function laneObject(lanes: readonly AnyLane[]): typeof LaneObject {
  const plans = new Map(lanes.map((lane) => [lane.name, planOf(lane)]));
  return class extends LaneObject {
    protected override readonly plans = plans;
  };
}
