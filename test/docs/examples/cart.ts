import { DurableObject } from "cloudflare:workers";
import { defineCommand, defineConsumer, defineQueue, defineWorkflow, type EngineEnv, enqueueOne, sql } from "millrace";
import { catalog } from "millrace/worker";
import * as z from "zod";

/** A cart that is not changed for this long is deleted. */
const EXPIRES_MS = 30 * 60_000;

const order = z.object({ order: z.string().min(1), items: z.record(z.string(), z.int().positive()) });
const key = ({ order }: { order: string }) => order;
const CartOrder = defineCommand({ type: "cart.order", payload: order, key, subject: key, queue: defineQueue({ name: "cart-commands" }) });

export const takeOrder = defineWorkflow({
  name: "take-order",
  on: CartOrder,
  run: ({ payload: { order, items }, step }) =>
    step.commit("store", () => ({ statements: [sql`INSERT INTO cart_orders (id, items) VALUES (${order}, ${JSON.stringify(items)})`] })),
});
export const cartConsumer = defineConsumer({ queue: CartOrder.queue, starts: [takeOrder] });
const cartCatalog = catalog({ consumers: [cartConsumer] });

interface CartState {
  readonly items: Readonly<Record<string, number>>;
  /** When it was last changed; 0 for a new cart. */
  readonly changedAt: number;
  /** The id of its order, once it is submitted. */
  readonly order?: string;
}

/** The cart of one session. Requests read its state in memory; each change is on disk before the response. */
export class Cart extends DurableObject<EngineEnv> {
  /** Undefined until the first call after the object started. */
  #state: CartState | undefined;

  items(): Readonly<Record<string, number>> {
    return this.#now().items;
  }

  /** Sets the count of an article. Returns false for a submitted cart, which does not change. */
  put(sku: string, count: number): boolean {
    const { order, items } = this.#now();
    if (order !== undefined) return false;
    const { [sku]: _, ...others } = items;
    this.#keep({ items: count > 0 ? { ...others, [sku]: count } : others });
    return true;
  }

  /** Orders the cart, once. Returns the instance, the same for a repeated call; null for an empty cart. */
  async submit(tenantId: string): Promise<string | null> {
    const { items, order = crypto.randomUUID() } = this.#now();
    if (Object.keys(items).length === 0) return null;
    // The command leaves the object only after this write: a repeat after a crash has the same key.
    this.#keep({ items, order });
    const by = { tenantId, source: "cart" };
    return (await enqueueOne(this.env, cartCatalog, by, { command: CartOrder, payload: { order, items } })).instanceId;
  }

  /** Deletes the cart, unless it was changed after the alarm was set. */
  override async alarm(): Promise<void> {
    const endsAt = this.#now().changedAt + EXPIRES_MS;
    if (Date.now() < endsAt) return this.ctx.storage.setAlarm(endsAt);
    this.#state = undefined;
    await this.ctx.storage.deleteAll();
  }

  #now(): CartState {
    this.#state ??= this.ctx.storage.kv.get<CartState>("cart") ?? { items: {}, changedAt: 0 };
    return this.#state;
  }

  #keep(state: Omit<CartState, "changedAt">): void {
    const isNew = this.#now().changedAt === 0;
    this.#state = { ...state, changedAt: Date.now() };
    this.ctx.storage.kv.put("cart", this.#state);
    // Set once, and not at each change: the alarm itself checks for later ones.
    if (isNew) void this.ctx.storage.setAlarm(Date.now() + EXPIRES_MS);
  }
}
