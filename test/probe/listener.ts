import { DurableObject } from "cloudflare:workers";
import { NonRetryableError } from "cloudflare:workflows";
import type { Envelope } from "millrace";

/** An object that events are told to: it counts each once, by its key. */
export class Listener extends DurableObject {
  async onEvent(envelope: Envelope): Promise<void> {
    await this.ctx.storage.put(envelope.idempotency_key, envelope.message_type);
  }

  async heard(): Promise<number> {
    return (await this.ctx.storage.list()).size;
  }

  /** Refuses for good, as another Worker would. */
  async refuse(said: string): Promise<never> {
    throw new NonRetryableError(said);
  }
}
