import { DurableObject } from "cloudflare:workers";
import { type EngineEnv, hasEngine } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { Registration } from "../store/tenant-objects.ts";
import { type AnyPullQueue, type PullName, type PullPlan, plansOf, pullNameOf } from "./definition.ts";
import { type KeptPullLetter, keepLetter, PullLetters } from "./letters.ts";
import type { Leased, Posted, PullSent } from "./message.ts";
import { PullStorage } from "./storage.ts";

export interface PullRequest {
  batchSize: number;
  /** Lease duration in milliseconds. Default: the queue's setting. */
  visibilityMs?: number | undefined;
}

/** A puller's request to acknowledge or return leased messages. */
export interface Settlement {
  /** Lease ids of the messages that the puller has processed. */
  acks: readonly string[];
  /**
   * Lease ids of the messages that the puller returns, each with the delay before the next delivery. Default for the delay: the queue's
   * setting.
   */
  retries: readonly { leaseId: string; delayMs?: number | undefined }[];
}

/** The result of a settlement. An ended lease is no error, because the message of such a lease is acknowledged, or is delivered again. */
export interface Settled {
  acked: number;
  retried: number;
  /** Ids of ended leases, whose messages remain unchanged. */
  over: string[];
}

/** The current state of a queue. */
export interface PullLook extends PullName {
  /** Number of messages that are neither acknowledged nor dead letters: leased, delayed and available messages. */
  depth: number;
  leased: number;
  /** Number of messages that are delayed, or wait for a retry. */
  waiting: number;
  /** The time when the oldest message was sent, in milliseconds since 1970. */
  oldestAt: number | null;
  letters: number;
  bytes: number;
}

type SendAnswer = { sent: PullSent[] } | { full: number };

/** The size of the storage, in bytes, from which a queue refuses new messages. A Durable Object may store 10 GB. */
const FULL_BYTES = 9_000_000_000;

/**
 * A tenant's pull queue. A message is on disk before its sender gets a response. A lease is on disk before its puller gets a response. The
 * alarm ends expired leases, retires old messages and hands off dead letters. If the alarm was lost, any call sets the alarm again.
 */
export class PullObject extends DurableObject {
  protected readonly plans: ReadonlyMap<string, PullPlan> = new Map();
  #messages = new PullStorage(this.ctx.storage);
  #registration = new Registration(this.env, this.ctx.storage.kv);
  readonly #letters = new PullLetters(this.ctx.storage.sql);
  #alarmAt: number | undefined;
  /** The time of the next search for expired keys, in milliseconds since 1970. */
  #forgetAt = 0;

  constructor(ctx: DurableObjectState, env: never) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      this.#alarmAt = (await ctx.storage.getAlarm()) ?? undefined;
    });
  }

  /** Stores all given messages, or no message. Errors: `config_invalid` if the queue is not in the object's list. */
  async send(posts: readonly Posted[]): Promise<SendAnswer> {
    const { plan, name } = this.#asked();
    if (this.#messages.bytes > FULL_BYTES) return { full: this.#messages.bytes };
    const { name: object } = this.ctx.id;
    if (object !== undefined) await this.#registration.make({ tenantId: name.tenant, binding: "PULL_QUEUES", name: object });
    if (!this.#messages.made) this.ctx.storage.kv.put("name", name);
    const sent = this.#messages.keep(posts, plan, Date.now());
    this.#arm();
    return { sent };
  }

  /** Leases messages, the oldest first. Errors: `config_invalid` if the queue is not in the object's list. */
  pull({ batchSize, visibilityMs }: PullRequest): { backlog: number; messages: Leased[] } {
    const { plan } = this.#asked();
    const now = Date.now();
    this.#endLeases(plan, now);
    const messages = this.#messages.take(batchSize, now + (visibilityMs ?? plan.visibilityMs), plan, now);
    this.#arm();
    return { backlog: this.#messages.depth, messages };
  }

  /**
   * Removes or returns messages by their lease ids. Ended leases are ignored. Errors: `config_invalid` if the queue is not in the object's
   * list.
   */
  settle({ acks, retries }: Settlement): Settled {
    const { plan } = this.#asked();
    const all = [...acks, ...retries.map(({ leaseId }) => leaseId)];
    const now = Date.now();
    this.#endLeases(plan, now);
    const acked = new Set(acks.map((leaseId) => this.#messages.heldBy(leaseId)).filter((held) => held !== undefined));
    const delays = new Map<number, number>();
    for (const { leaseId, delayMs } of retries) {
      const held = this.#messages.heldBy(leaseId);
      if (held !== undefined && !acked.has(held) && !delays.has(held)) delays.set(held, delayMs ?? plan.retryDelayMs);
    }
    const over = all.filter((leaseId) => this.#messages.heldBy(leaseId) === undefined);
    const byDelay = Map.groupBy(delays, ([, delayMs]) => delayMs);
    const returns = [...byDelay].map(([delayMs, held]) => ({ sequences: held.map(([sequence]) => sequence), dueAt: now + delayMs }));
    this.#messages.settle([...acked], returns, plan, now);
    this.#arm();
    return { acked: acked.size, retried: delays.size, over };
  }

  look(): PullLook {
    const { name } = this.#self();
    return {
      ...name,
      depth: this.#messages.depth,
      leased: this.#messages.leased,
      waiting: this.#messages.waiting(Date.now()),
      oldestAt: this.#messages.oldestAt,
      letters: this.#messages.made ? this.#letters.count : 0,
      bytes: this.#messages.bytes,
    };
  }

  /** Returns the queue's dead letters in order, starting after the dead letter with the given id. */
  letters({ after, limit = 100 }: { after?: string; limit?: number } = {}): KeptPullLetter[] {
    return this.#messages.made ? this.#letters.list(this.#self().name, after, Math.min(limit, 1000)) : [];
  }

  /** Deletes a dead letter and returns it; undefined for an unknown id. */
  removeLetter(id: string): KeptPullLetter | undefined {
    return this.#messages.made ? this.#letters.remove(this.#self().name, id) : undefined;
  }

  /** Adds a dead letter's message to the end of the queue as a new message. Returns false for an unknown id. */
  replayLetter(id: string): boolean {
    const revived = this.#messages.revive(id, Date.now());
    if (revived) this.#arm();
    return revived;
  }

  /** Deletes all data of the queue, including dead letters and keys. The deletion of a tenant uses this call. */
  async erase(): Promise<void> {
    const erased = [this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()];
    this.#alarmAt = undefined;
    this.#messages = new PullStorage(this.ctx.storage);
    this.#registration = new Registration(this.env, this.ctx.storage.kv);
    await Promise.all(erased);
  }

  override async alarm(): Promise<void> {
    this.#alarmAt = undefined;
    const { plan, name } = this.#self();
    if (!plan) return;
    try {
      const now = Date.now();
      this.#endLeases(plan, now);
      this.#messages.retire(plan, now);
      if (this.#forgetAt <= now) {
        this.#messages.keys?.forget(now);
        this.#forgetAt = now + plan.rememberMs / 4;
      }
      await this.#letters.handOff(name, plan, this.env);
    } finally {
      this.#arm();
    }
  }

  #endLeases(plan: PullPlan, now: number): void {
    const ranOut = this.#messages.ranOut(now);
    this.#messages.settle([], [{ sequences: ranOut, dueAt: now + plan.retryDelayMs }], plan, now);
  }

  /**
   * The queue and tenant of this object, with the queue's definition. Errors: `config_invalid` if the queue is not in the object's list.
   */
  #asked(): { name: PullName; plan: PullPlan } {
    const { name, plan } = this.#self();
    if (plan) return { name, plan };
    const said = `The object PULL_QUEUES has no queue "${name.queue}". Add it to the list of pullObject([…]), and deploy that.`;
    throw new MillraceError("config_invalid", said);
  }

  /**
   * The queue and tenant of this object. The name is stored, because the runtime does not give an object its name if the alarm starts the
   * object.
   */
  #self(): { name: PullName; plan: PullPlan | undefined } {
    const name = pullNameOf(this.ctx.id.name) ?? this.ctx.storage.kv.get<PullName>("name") ?? { queue: "", tenant: "" };
    const plan = this.plans.get(name.queue);
    if (!plan || plan.onDeadLetter || !hasEngine(this.env)) return { name, plan };
    return { name, plan: { ...plan, onDeadLetter: (letter, env) => keepLetter(letter, env as EngineEnv) } };
  }

  /** Sets the alarm for the next due work. Setting an alarm costs a written row, so an existing alarm that is early enough is kept. */
  #arm(): void {
    const { plan } = this.#self();
    if (!plan) return;
    const now = Date.now();
    const next = this.#messages.nextAt(plan, now);
    const forgets = this.#messages.keys?.some ? now + plan.rememberMs : undefined;
    const due = Math.min(next ?? Number.POSITIVE_INFINITY, forgets ?? Number.POSITIVE_INFINITY);
    if (due === Number.POSITIVE_INFINITY || (this.#alarmAt !== undefined && this.#alarmAt <= due)) return;
    this.#alarmAt = due;
    void this.ctx.storage.setAlarm(due);
  }
}

/** Creates the object class of the given queues: `export class PullQueues extends pullObject([renders]) {}`. Errors: `config_invalid`. */
export function pullObject(queues: readonly AnyPullQueue[]): typeof PullObject {
  const plans = plansOf(queues);
  return class extends PullObject {
    protected override readonly plans = plans;
  };
}
