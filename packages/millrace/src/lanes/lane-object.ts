import { DurableObject } from "cloudflare:workers";
import { nearest } from "../contract/nearest.ts";
import { beginning } from "../contract/text.ts";
import type { Gate } from "./backlog.ts";
import { type AnyLane, type LaneName, type Plan, parseObjectName, plansOf } from "./definition.ts";
import { Dispatch } from "./dispatch.ts";
import type { KeptLetter } from "./letters.ts";
import { type LaneLook, look, type WaitingMessage, waiting } from "./look.ts";
import type { Posted } from "./message.ts";
import { triedNow } from "./progress.ts";
import { type LaneSent, LaneStorage } from "./storage.ts";

/** The stored messages of a send, or the reason why no message was stored. The reason is either an unknown lane or a full object. */
export type SendAnswer = { sent: LaneSent[] } | { unknownLane: string; didYouMean: string | undefined } | { fullAtBytes: number };

/** The result of an operator's action. If the action was not executed, the result contains the reason. */
export type Steered = { done: true } | { done: false; reason: string };

/** Maximum number of messages or dead letters in one page. The RPC limit is 32 MiB. */
const MAX_PAGE = 100;

/**
 * One lane of one key. Messages are on disk before their sender gets a response, and the handler runs in this Durable Object. The state in
 * memory can be lost at any time. Then the alarm starts the object again, and the object continues from the state on disk.
 */
export class LaneObject extends DurableObject {
  protected readonly plans: ReadonlyMap<string, Plan> = new Map();
  protected readonly gate: Gate | undefined = undefined;
  #lane = new LaneStorage(this.ctx.storage);
  #dispatch = this.#dispatchOf(this.#lane);
  readonly #intake = new Intake(this.ctx.storage, (posts) => this.#keep(posts));

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env as never);
    // After each start, the object continues from the state on disk.
    if (this.#lane.name) queueMicrotask(() => this.#dispatch.go());
  }

  /** Appends messages in the order of the call. Either all messages are stored or no message. */
  async send(posts: readonly Posted[]): Promise<SendAnswer> {
    const name = this.laneName();
    const plan = this.plans.get(name.lane);
    if (!plan) return { unknownLane: name.lane, didYouMean: nearest(name.lane, this.plans.keys()) };
    if (this.#lane.bytes > plan.maxBytes) return { fullAtBytes: plan.maxBytes };
    return { sent: await this.#intake.take(posts) };
  }

  look(): LaneLook {
    const name = this.laneName();
    return look(name, this.#lane, { isKnown: this.plans.has(name.lane), handed: this.#dispatch.handed });
  }

  /** The state of the lane for the HTTP API, which supports only lanes of `engineLanes`. */
  async stand(): Promise<object | undefined> {
    return undefined;
  }

  /** An operator's action through the HTTP API. In this class, the method has no effect. */
  async steer(_request: object): Promise<object | undefined> {
    return undefined;
  }

  /** Returns at most 100 waiting messages in order, starting after a position. */
  messages({ after, limit = MAX_PAGE }: { after?: number; limit?: number } = {}): WaitingMessage[] {
    return waiting(this.#lane, after, Math.min(limit, MAX_PAGE));
  }

  /** Returns at most 100 dead letters of this lane in order, starting after an id. */
  letters({ after, limit = MAX_PAGE }: { after?: string; limit?: number } = {}): KeptLetter[] {
    return this.#lane.letters?.list(after, Math.min(limit, MAX_PAGE)) ?? [];
  }

  /** Deletes a dead letter. */
  removeLetter(id: string): Steered {
    if (this.#lane.letters?.handing === id) return HANDED_OVER;
    return this.#lane.letters?.remove(id) ? { done: true } : noLetter(id);
  }

  /**
   * Sends the body of a dead letter again as a new message at the end of the lane. The new message has no key, because the lane still
   * remembers the key of the dead letter.
   */
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

  /** Hands out no messages until `resume`. A call of the handler that is in progress is settled as usual. */
  pause(): Steered {
    if (this.#lane.progress.paused) return { done: false, reason: "The lane is paused already." };
    this.#lane.make(this.laneName());
    this.#lane.advance({ ...this.#lane.progress, paused: true }, Date.now());
    this.#dispatch.go();
    return { done: true };
  }

  /** Continues a paused or held lane. The head of a held lane gets all its retries again. */
  resume(): Steered {
    const { progress } = this.#lane;
    if (!progress.paused && !progress.held) return { done: false, reason: "The lane is neither paused nor held." };
    const afresh = progress.held ? { failures: 0, dueAt: 0, held: false } : {};
    this.#lane.advance({ ...progress, ...afresh, paused: false }, Date.now());
    this.#dispatch.go();
    return { done: true };
  }

  /**
   * Tries to deliver the head at once, without the head's delay. If the try fails in a held lane, the lane is held again. With an id, the
   * call does nothing unless that message is the head.
   */
  retryHead(id?: string): Steered {
    const refused =
      this.#refused(id) ?? (this.#lane.progress.paused ? { done: false, reason: "The lane is paused: resume it." } : undefined);
    if (refused) return refused;
    this.#lane.advance(triedNow(this.#lane.progress), Date.now());
    this.#dispatch.go();
    return { done: true };
  }

  /**
   * Makes the head a dead letter and continues with the next message. With an id, the call does nothing unless that message is the head.
   */
  skipHead(id?: string): Steered {
    const refused = this.#refused(id);
    if (refused) return refused;
    this.#dispatch.park(this.#lane.progress, "skipped");
    this.#dispatch.go();
    return { done: true };
  }

  /** Deletes all messages, keys and dead letters of the lane. Returns true if the lane had stored anything. */
  async erase(): Promise<boolean> {
    const had = this.#lane.name !== undefined;
    const before = this.#dispatch.stop();
    // Both calls start in the same turn of the event loop. Therefore messages that are sent during the deletion are stored after the
    // deletion, and remain.
    const erased = [this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()];
    this.#lane = new LaneStorage(this.ctx.storage);
    this.#dispatch = this.#dispatchOf(this.#lane, before);
    await Promise.all(erased);
    return had;
  }

  override async alarm(): Promise<void> {
    if (this.#dispatch.rang() && this.isSpent()) await this.erase();
  }

  /** True if the lane stores only its name, and no messages, keys or dead letters. */
  protected isSpent(): boolean {
    const { depth, letters, progress } = this.#lane;
    return depth === 0 && letters?.count === 0 && !progress.paused && !progress.held;
  }

  /** The lane's name is stored, because an object that its alarm starts does not get its name. */
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
    if (id !== undefined && head.id !== id) return { done: false, reason: "The head has changed: read the lane again." };
    if (this.#dispatch.handed > 0) return { done: false, reason: "The handler is processing the head: try again later." };
    return undefined;
  }

  #keep(posts: readonly Posted[]): LaneSent[] {
    this.#lane.make(this.laneName());
    const sent = this.#lane.keep(posts, this.#dispatch.closedTo, Date.now());
    this.#dispatch.go();
    return sent;
  }
}

const HANDED_OVER: Steered = { done: false, reason: "The dead letter is being handed over: read the list again." };

function noLetter(id: string): Steered {
  return { done: false, reason: `The lane has no dead letter ${beginning(id, 100)}.` };
}

/**
 * Creates the object class of the given lanes: `export class Lanes extends laneObject([orders]) {}`. Errors: `config_invalid`, whose
 * message says what to change.
 */
export function laneObject(lanes: readonly AnyLane[]): typeof LaneObject {
  const plans = plansOf(lanes);
  return class extends LaneObject {
    protected override readonly plans = plans;
  };
}

interface Waiting {
  posts: readonly Posted[];
  resolve: (sent: LaneSent[]) => void;
  reject: (error: unknown) => void;
}

/**
 * Combines concurrent sends into few writes. While one write is flushed to disk, the next write collects messages. If no write is in
 * progress, a send does not wait.
 */
class Intake {
  readonly #storage: DurableObjectStorage;
  readonly #keep: (posts: readonly Posted[]) => LaneSent[];
  #isWriting = false;
  #waiting: Waiting[] = [];

  constructor(storage: DurableObjectStorage, keep: (posts: readonly Posted[]) => LaneSent[]) {
    this.#storage = storage;
    this.#keep = keep;
  }

  /** Appends messages. The platform's output gate delays the response until the write is on disk. */
  async take(posts: readonly Posted[]): Promise<LaneSent[]> {
    if (this.#isWriting) return new Promise((resolve, reject) => this.#waiting.push({ posts, resolve, reject }));
    const sent = this.#keep(posts);
    this.#isWriting = true;
    this.#storage.sync().then(
      () => this.#written(),
      // A failed write resets the object, so that all waiting calls fail. Therefore this error needs no handler.
      () => undefined,
    );
    return sent;
  }

  #written(): void {
    this.#isWriting = false;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    this.take(waiting.flatMap(({ posts }) => posts)).then(
      (sent) => {
        const answers = sent.values();
        for (const { posts, resolve } of waiting) resolve([...answers.take(posts.length)]);
      },
      (error) => {
        for (const { reject } of waiting) reject(error);
      },
    );
  }
}
