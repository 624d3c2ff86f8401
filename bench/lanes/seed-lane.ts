import { DurableObject } from "cloudflare:workers";
import { countingWrites } from "./count.ts";
import { handle } from "./handler.ts";

interface SeedMessage {
  id: string;
  timestamp: number;
  attempts: number;
  body: { n: number; series: string };
}

const BATCH = 10;

/**
 * The design that lanes are compared with: one key-value entry per message, with a key of time, sequence and id. Its alarm lists ten
 * entries, passes the entries to the handler, deletes the entries, and repeats until no entry is left. This copy never waits longer than
 * the original design.
 */
export class SeedLane extends DurableObject {
  #sequence = 0;
  /** True while an alarm is set or running. The object does not query or set another alarm during this time. */
  #armed = false;

  constructor(ctx: DurableObjectState, env: unknown) {
    super(countingWrites(ctx), env as never);
  }

  async send(body: SeedMessage["body"]): Promise<string> {
    const id = crypto.randomUUID();
    const now = Date.now();
    const key = `message:${String(now).padStart(15, "0")}:${String(this.#sequence++).padStart(10, "0")}:${id}`;
    const kept = this.ctx.storage.put(key, { id, timestamp: now, attempts: 0, body } satisfies SeedMessage);
    if (!this.#armed) {
      this.#armed = true;
      await this.ctx.storage.setAlarm(now);
    }
    await kept;
    return id;
  }

  override async alarm(): Promise<void> {
    for (;;) {
      const batch = await this.ctx.storage.list<SeedMessage>({ prefix: "message:", limit: BATCH });
      if (batch.size === 0) break;
      await handle({ messages: [...batch.values()] });
      await this.ctx.storage.delete([...batch.keys()]);
    }
    this.#armed = false;
  }
}

/** The earlier design in a Durable Object with key-value storage. */
export class SeedLaneKv extends SeedLane {}
