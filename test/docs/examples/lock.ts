import { atomically, sql } from "millrace";
import { withLock } from "millrace/locks";

/** Closes the books of a shop. Parallel calls for one shop run one after another. */
export function closeBooks(
  env: Cloudflare.Env,
  tenantId: string,
  shop: string,
  sum: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  return withLock(
    env,
    `books/${shop}`,
    { tenantId, ttl: "30 seconds", wait: "10 seconds", holder: "closing" },
    async ({ fence, signal }) => {
      const cents = await sum(signal);
      await atomically(env.DB, [fence, sql`INSERT INTO books (shop, cents) VALUES (${shop}, ${cents})`]);
      return cents;
    },
  );
}
