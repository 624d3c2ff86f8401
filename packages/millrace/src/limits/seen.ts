import { objectsIn } from "../contract/bindings.ts";
import { placed } from "../contract/location.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { selectLimits, unlistLimit } from "../store/limits.ts";
import type { LimitEnv } from "./client.ts";
import type { LimitSeen } from "./look.ts";

/** A limit in a tenant's list. */
export interface ListedLimit extends LimitSeen {
  name: string;
}

/**
 * The limits that were used under a tenant's name within the last day, by name, with the state from their objects. `after`: the last name
 * of the previous page.
 */
export async function listLimits(
  env: LimitEnv & { DB: D1Database },
  { tenantId }: Pick<Operator, "tenantId">,
  { after, limit }: { after: string; limit: number },
): Promise<{ items: ListedLimit[]; next: string | null }> {
  const objects = objectsIn(env, "RATE_LIMIT");
  const rows = await query<{ name: string }>(env.DB, selectLimits(tenantId, after, limit + 1));
  const page = rows.slice(0, limit);
  const seen = await Promise.all(
    page.map(async ({ name }) => {
      const object = objects?.getByName(name, placed(env)) as unknown as { look(): Promise<LimitSeen | undefined> } | undefined;
      const found = await object?.look();
      if (!found) await query(env.DB, unlistLimit({ tenantId, name }));
      return found ? { name, ...found } : [];
    }),
  );
  return { items: seen.flat(), next: rows.length > limit ? (page.at(-1)?.name ?? null) : null };
}
