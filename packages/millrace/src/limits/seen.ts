import * as z from "zod";
import { objectsIn } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import { rowOf, timestamp } from "../contract/row.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { selectLimits, unlistLimit } from "../store/limits.ts";
import type { LimitEnv } from "./client.ts";
import type { LimitSeen } from "./rate-limit.ts";

export const LimitRow = z
  .object({
    name: z.string(),
    rules: z
      .array(
        z
          .object({
            limit: z.number().meta({ description: "The highest count of a window in any period, or the capacity of a bucket." }),
            refill: z.number().nullable().meta({ description: "The tokens that a bucket gets per period, evenly; null for a window." }),
            period_seconds: z.number(),
            used: z.number().meta({ description: "The used part of `limit`; for a bucket including reservations." }),
          })
          .meta({ id: "LimitRule" }),
      )
      .meta({ description: "The rules of the limit's last call. All rules apply." }),
    waiting: z.number().meta({ description: "The number of slots reserved for waiting callers." }),
    paused_until: timestamp.nullable().meta({ description: "No call is allowed before this time; null if calls are allowed." }),
    share: z.number().min(0).max(1).meta({
      description: "The share of the rate that is in use after refusals of the upstream. The share grows by 1/60 per second.",
    }),
    used_at: timestamp.meta({ description: "The time of the last granted call, which may be in the future." }),
  })
  .meta({ id: "Limit" });
export type LimitRow = z.infer<typeof LimitRow>;

/**
 * The limits that callers used with a tenant's id as `tenantId` within the last day, in the order of their names. The states come from the
 * limits' Durable Objects. `after` is the last name on the previous page.
 */
export async function listLimits(
  env: LimitEnv & { DB: D1Database },
  { tenantId }: Pick<Operator, "tenantId">,
  { after, limit }: { after: string; limit: number },
): Promise<{ items: LimitRow[]; next: string | null }> {
  const objects = objectsIn(env, "RATE_LIMIT");
  const rows = await query<{ name: string }>(env.DB, selectLimits(tenantId, after, limit + 1));
  const page = rows.slice(0, limit);
  const seen = await Promise.all(
    page.map(async ({ name }) => {
      const object = objects?.getByName(name, placed(env)) as unknown as { look(): Promise<LimitSeen | undefined> } | undefined;
      const found = await object?.look();
      if (!found) await query(env.DB, unlistLimit({ tenantId, name }));
      return found ? rowOf(LimitRow, { name, ...found }) : [];
    }),
  );
  return { items: seen.flat(), next: rows.length > limit ? (page.at(-1)?.name ?? null) : null };
}
