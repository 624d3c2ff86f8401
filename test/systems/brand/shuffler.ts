import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Envelope, ids } from "millrace";
import { outbox } from "millrace/worker";
import { vi } from "vitest";
import worker from "../../../src/worker.ts";
import { chances } from "../facts/derived.ts";

/** A pending delivery. */
interface Waiting {
  queue: string;
  body: Envelope;
  time: number;
}

/** The maximum of deliveries in one batch. */
const BATCH = 4;

/**
 * Runs between the queues and their consumers: intercepts every message and delivers it itself, twice, in an order that a seed determines
 * per tenant. Messages of other tenants pass.
 */
export class Shuffler implements Disposable {
  readonly #deliver = worker.queue;
  readonly #chance = new Map<string, () => number>();
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #seen = new Map<string, Map<string, string>>();

  constructor() {
    vi.spyOn(worker, "queue").mockImplementation(async (batch, bindings, ctx) => {
      const messages = batch.messages as readonly Message<Envelope>[];
      const [own = [], others = []] = [true, false].map((is) => messages.filter(({ body }) => this.#chance.has(body.tenant_id) === is));
      for (const message of own) {
        this.#take(batch.queue, message.body);
        message.ack();
      }
      if (others.length > 0) await this.#deliver(own.length > 0 ? of(batch, others) : batch, bindings, ctx);
    });
  }

  /** A tenant's messages are delivered in their own order. */
  shuffle(tenantId: string, seed: number): void {
    this.#chance.set(tenantId, chances(seed));
    this.#waiting.set(tenantId, []);
    this.#seen.set(tenantId, new Map());
  }

  /** The number of different messages of each type that a tenant's queues got. */
  counts(tenantId: string): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const type of this.#seen.get(tenantId)?.values() ?? []) counts[type] = (counts[type] ?? 0) + 1;
    return counts;
  }

  /** Drops all waiting messages, as queues of a killed process do. Returns their number. */
  lose(tenantId: string): number {
    return this.#waiting.get(tenantId)?.splice(0).length ?? 0;
  }

  get isEmpty(): boolean {
    return [...this.#waiting.values()].every(({ length }) => length === 0);
  }

  /** Delivers some random waiting messages of each tenant, in one batch of one queue. */
  async deliverSome(): Promise<void> {
    await Promise.all([...this.#waiting].map(([tenantId, waiting]) => this.#deliverOf(tenantId, waiting)));
  }

  [Symbol.dispose](): void {
    vi.mocked(worker.queue).mockRestore();
  }

  #take(queue: string, body: Envelope): void {
    const waiting = this.#waiting.get(body.tenant_id) as Waiting[];
    this.#seen.get(body.tenant_id)?.set(outbox.messageId(body), body.message_type);
    for (let time = 1; time <= 2; time++) {
      const at = Math.floor(this.#random(body.tenant_id) * (waiting.length + 1));
      waiting.splice(at, 0, { queue, body, time });
    }
  }

  async #deliverOf(tenantId: string, waiting: Waiting[]): Promise<void> {
    const [next] = waiting;
    if (!next) return;
    const size = 1 + Math.floor(this.#random(tenantId) * BATCH);
    const together = waiting.filter(({ queue }) => queue === next.queue).slice(0, size);
    for (const one of together) waiting.splice(waiting.indexOf(one), 1);
    const batch = createMessageBatch(
      next.queue,
      together.map(({ body, time }) => ({
        id: ids.digest(outbox.messageId(body), String(time)),
        timestamp: new Date(),
        attempts: time,
        body,
      })),
    );
    const ctx = createExecutionContext();
    await this.#deliver.call(worker, batch as MessageBatch<unknown>, env, ctx);
    const { retryMessages, retryBatch } = await getQueueResult(batch, ctx);
    if (retryBatch.retry || retryMessages.length > 0) throw new Error(`${tenantId}: ${next.queue} returned messages.`);
  }

  #random(tenantId: string): number {
    return this.#chance.get(tenantId)?.() ?? 0;
  }
}

/** Some messages of a batch, as a batch. */
function of(batch: MessageBatch<unknown>, messages: readonly Message<unknown>[]): MessageBatch<unknown> {
  return {
    queue: batch.queue,
    metadata: batch.metadata,
    messages,
    ackAll: () => messages.forEach((message) => void message.ack()),
    retryAll: (options) => messages.forEach((message) => void message.retry(options)),
  };
}
