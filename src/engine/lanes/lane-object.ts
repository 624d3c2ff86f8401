import { DurableObject } from "cloudflare:workers";
import { messageOf } from "../contract/errors.ts";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import type { Kept } from "./backlog.ts";
import { type AnyLane, type LaneLetter, type Plan, planOf } from "./definition.ts";
import { handOut } from "./hand-out.ts";
import { Intake } from "./intake.ts";
import { type LaneName, parseObjectName } from "./lane-name.ts";
import { type KeptLetter, MAX_ERROR_CHARACTERS } from "./letters.ts";
import { type LaneLook, look, type WaitingMessage, waiting } from "./look.ts";
import type { Posted } from "./message.ts";
import { advanced, attemptsOf, dueAtOf, follow, type Outcome, type Progress, triedNow } from "./progress.ts";
import { type LaneSent, LaneStorage } from "./storage.ts";
import { Waker } from "./waker.ts";

/** Kept, or why not: no lane of this name is in the object's list, or the object is full. */
export type SendAnswer = { sent: LaneSent[] } | { unknownLane: string; didYouMean: string | undefined } | { fullAtBytes: number };

/** What became of a person's action. Not done: why, in words. */
export type Steered = { done: true } | { done: false; reason: string };

/** A lane whose code is not deployed is looked at again this much later, in milliseconds. */
const UNKNOWN_MS = 60_000;
/** Largest page of messages or letters: one answer carries 32 MiB. */
const MAX_PAGE = 100;

/**
 * One lane of one key. Its messages are on disk before their sender is answered; the handler runs here, one batch at a time; what is settled
 * is removed by one write. What is in memory can be lost at any point: the alarm finds what is on disk.
 */
export class LaneObject extends DurableObject {
  protected readonly plans: ReadonlyMap<string, Plan> = new Map();
  #lane = new LaneStorage(this.ctx.storage);
  readonly #intake = new Intake(this.ctx.storage, (posts) => this.#keep(posts));
  readonly #waker = new Waker(this.ctx.storage, () => this.#go());
  /** True until the first head that was found here is handed out. */
  #woken = this.#lane.depth > 0;
  /** The messages that the handler has. */
  #handed: readonly Kept[] = [];
  #running = false;

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env as never);
    // Whatever woke it, it goes on with what it finds.
    if (this.#lane.name) queueMicrotask(() => this.#go());
  }

  /** Keeps messages in the order of the call, behind all that are there: all of them or none. */
  async send(posts: readonly Posted[]): Promise<SendAnswer> {
    const name = this.#name();
    const plan = this.plans.get(name.lane);
    if (!plan) return { unknownLane: name.lane, didYouMean: nearest(name.lane, this.plans.keys()) };
    if (this.#lane.bytes > plan.maxBytes) return { fullAtBytes: plan.maxBytes };
    return { sent: await this.#intake.take(posts) };
  }

  /** How the lane stands. */
  look(): LaneLook {
    const name = this.#name();
    return look(name, this.#lane, { isKnown: this.plans.has(name.lane), handed: this.#handed.length });
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
    return this.#lane.letters?.remove(id) ? { done: true } : noLetter(id);
  }

  /** Sends what a dead letter holds again, behind all that waits: a new message, without the key, which is known here. */
  resendLetter(id: string): Steered {
    const { letters } = this.#lane;
    const letter =
      letters &&
      this.#lane.together(() => {
        const removed = letters.remove(id);
        if (removed) this.#lane.keep([{ text: JSON.stringify(removed.body), key: null, delayMs: 0 }], this.#closedTo, Date.now());
        return removed;
      });
    this.#go();
    return letter ? { done: true } : noLetter(id);
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

  /** Tries the head at once, whatever it waits for. A lane that holds, holds again if that fails. With an id, only if it is the head. */
  retryHead(id?: string): Steered {
    const refused =
      this.#refused(id) ?? (this.#lane.progress.paused ? { done: false, reason: "The lane is paused: resume it." } : undefined);
    if (refused) return refused;
    this.#lane.advance(triedNow(this.#lane.progress), Date.now());
    this.#go();
    return { done: true };
  }

  /** Takes the head out: it becomes a dead letter, and the lane goes on. With an id, only if it is the head. */
  skipHead(id?: string): Steered {
    const refused = this.#refused(id);
    if (refused) return refused;
    this.#park(this.#lane.progress, "skipped");
    this.#go();
    return { done: true };
  }

  /** Removes all that the lane keeps, its letters too, for good. Answers whether there was anything. */
  async erase(): Promise<boolean> {
    const had = this.#lane.name !== undefined;
    await this.ctx.storage.deleteAlarm();
    await this.ctx.storage.deleteAll();
    this.#waker.rang();
    this.#lane = new LaneStorage(this.ctx.storage);
    return had;
  }

  override alarm(): void {
    this.#waker.rang();
    const plan = this.#plan();
    if (plan) this.#lane.forget(plan.rememberMs, Date.now());
    this.#go();
  }

  /** An alarm that wakes the object does not say its name, so it is kept. */
  #name(): LaneName {
    return this.#lane.name ?? parseObjectName(this.ctx.id.name) ?? { lane: this.ctx.id.name ?? "", tenant: null, key: "" };
  }

  #plan(): Plan | undefined {
    return this.plans.get(this.#lane.name?.lane ?? "");
  }

  /** What lies before it, the handler has. */
  get #closedTo(): number {
    return (this.#handed.at(-1)?.sequence ?? -1) + 1;
  }

  #refused(id: string | undefined): Steered | undefined {
    const [head] = this.#lane.messages(this.#lane.progress.head, 1);
    if (!head) return { done: false, reason: "The lane is empty." };
    if (id !== undefined && head.id !== id) return { done: false, reason: "The head is another message by now: look again." };
    if (this.#handed.length > 0) return { done: false, reason: "The handler has the head just now: try again when it is settled." };
    return undefined;
  }

  #keep(posts: readonly Posted[]): LaneSent[] {
    this.#lane.make(this.#name());
    const sent = this.#lane.keep(posts, this.#closedTo, Date.now());
    this.#go();
    return sent;
  }

  /** Sees to it that what is due is done, now or by the alarm. */
  #go(): void {
    const plan = this.#plan();
    if (plan && !this.#running) {
      this.#running = true;
      queueMicrotask(() => void this.#drain(plan));
    }
    this.#setWaker();
  }

  /** Hands out what is due, batch by batch, until nothing is. */
  async #drain(plan: Plan): Promise<void> {
    try {
      this.#handOffLetters(plan);
      for (let batch = this.#due(plan); batch.length > 0; batch = this.#due(plan)) await this.#deliver(plan, batch);
    } catch (error) {
      logFailure(plan, error);
    } finally {
      this.#handed = [];
      this.#running = false;
      this.#setWaker();
    }
  }

  #handOffLetters(plan: Plan): void {
    const handOff = this.#lane.letters?.dueAt !== undefined && this.#lane.letters.handOff(plan, this.env);
    if (handOff) void handOff.catch((error) => logFailure(plan, error)).finally(() => this.#setWaker());
  }

  /** The messages that may be handed out now. */
  #due(plan: Plan): Kept[] {
    const { progress } = this.#lane;
    if (progress.paused || progress.held) return [];
    const now = Date.now();
    const messages = this.#lane.messages(progress.head, progress.aloneTo >= progress.head || this.#woken ? 1 : plan.batchSize);
    const waits = messages.findIndex((one) => dueAtOf(progress, one) > now);
    return waits === -1 ? messages : messages.slice(0, waits);
  }

  async #deliver(plan: Plan, batch: readonly Kept[]): Promise<void> {
    const lane = this.#lane;
    const { progress } = lane;
    const sequences = batch.map(({ sequence }) => sequence);
    if (this.#woken) {
      // Found a second time under way: an object that ends here again and again must not try for ever.
      if (progress.trying === progress.head) return this.#settle(plan, { ...ENDED, sequences });
      this.#woken = false;
      this.#lane.advance({ ...progress, trying: progress.head }, Date.now());
    }
    this.#handed = batch;
    const handed = batch.map((one) => ({ ...one, attempts: attemptsOf(progress, one.sequence) + 1 }));
    const metrics = () => ({ backlogCount: this.#lane.depth, backlogBytes: this.#lane.size() });
    const { settled, thrown } = await handOut(plan, handed, { env: this.env, object: this.ctx, metrics });
    this.#handed = [];
    if (lane !== this.#lane) return;
    this.#settle(plan, { sequences, settled, error: thrown === undefined ? null : beginning(messageOf(thrown), MAX_ERROR_CHARACTERS) });
  }

  #settle(plan: Plan, outcome: Outcome): void {
    const now = Date.now();
    // Since then a person may have paused the lane: its progress is read now.
    const { progress, parks } = follow(this.#lane.progress, outcome, plan, now);
    if (parks) this.#park(progress, "exhausted");
    else this.#lane.advance(progress, now);
    if (parks || progress.held) logGivenUp(plan, progress, parks);
    this.#setWaker();
  }

  /** Moves the head to the letters, with everything before it removed: one transaction. */
  #park(progress: Progress, reason: LaneLetter["reason"]): void {
    const [head] = this.#lane.messages(progress.head, 1);
    if (!head) return;
    const now = Date.now();
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
    this.#lane.advance(advanced(progress, head.sequence + 1), now, (letters) => letters.add(head.sequence, letter));
    const plan = this.#plan();
    if (plan) this.#handOffLetters(plan);
  }

  #setWaker(): void {
    const plan = this.#plan();
    const { progress } = this.#lane;
    const times: number[] = [];
    const [head] = progress.paused || progress.held ? [] : this.#lane.messages(progress.head, 1);
    if (head) times.push(plan ? dueAtOf(progress, head) : Date.now() + UNKNOWN_MS);
    const letterDueAt = plan?.onDeadLetter && this.#lane.letters?.dueAt;
    if (letterDueAt !== undefined) times.push(letterDueAt);
    const forgetsAt = plan && this.#lane.forgetsAt(plan.rememberMs);
    if (forgetsAt !== undefined) times.push(forgetsAt);
    this.#waker.set(times.length > 0 ? Math.min(...times) : undefined);
  }
}

/** How a delivery is settled that its object did not survive. */
const ENDED: Omit<Outcome, "sequences"> = {
  settled: { each: ["retry"], delayMs: [undefined] },
  error: "The lane's object ended while the handler had this message.",
};

function noLetter(id: string): Steered {
  return { done: false, reason: `The lane keeps no dead letter ${beginning(id, 100)}.` };
}

/** No payload and no key is logged, and no error's text: handlers write both into it. */
function logGivenUp({ name, onFailure }: Plan, { failures }: Progress, parks: boolean): void {
  const what = parks ? "its head became a dead letter" : "it stands still until a person decides";
  console.warn(JSON.stringify({ log: "lane_gave_up", lane: name, on_failure: onFailure, failures, what }));
}

function logFailure({ name }: Plan, error: unknown): void {
  console.error(JSON.stringify({ log: "lane_failed", lane: name, error: messageOf(error) }));
}

/** The object of these lanes: `export class Lanes extends laneObject([orders]) {}`. Errors: `config_invalid`, which says what to change. */
export function laneObject(lanes: readonly AnyLane[]): typeof LaneObject {
  const plans = new Map(lanes.map((lane) => [lane.name, planOf(lane)]));
  return class extends LaneObject {
    protected override readonly plans = plans;
  };
}
