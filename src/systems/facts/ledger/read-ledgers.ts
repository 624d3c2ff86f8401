import { byteLength } from "millrace";
import type { RecordedFact } from "../../../messages/fact.ts";
import { ledgersFrom } from "../rebuild.ts";
import type { PageBounds } from "./fact-rows.ts";
import { ledgerOf } from "./ledgers.ts";

/** Where a walk through a tenant's ledgers goes on: behind a fact of one, or behind a whole ledger. */
export interface LedgerPlace {
  entity: string;
  /** Null behind the whole ledger. */
  sequence: number | null;
}

/** What was read of one ledger. */
export interface LedgerPart {
  entity: string;
  facts: RecordedFact[];
  /** The first place that was looked at: before it lies what was read before, or what the ledger has forgotten. */
  first: number;
  /** True when nothing that was asked for lies behind it. */
  ended: boolean;
}

/** Ledgers asked at once. */
const AT_ONCE = 10;

/**
 * Reads a tenant's ledgers, in the order of their names and places, straight from their objects: what a projection lacks is there all
 * the same. Known are those ledgers of which a fact has been projected once.
 */
export async function readLedgers(
  env: Env,
  tenantId: string,
  from: LedgerPlace | null,
  { ledgers: most, ...bounds }: PageBounds & { ledgers: number },
): Promise<{ parts: LedgerPart[]; next: LedgerPlace | null }> {
  const known = await ledgersFrom(env.DB, tenantId, from ?? { entity: "", sequence: null }, most + 1);
  const entities = known.slice(0, most);
  const parts: LedgerPart[] = [];
  let { rows, bytes } = bounds;
  for (let at = 0; at < entities.length; ) {
    // The first may be all that there is room for: whoever else is asked beside it would be asked for nothing.
    const group = entities.slice(at, at + (at === 0 ? 1 : AT_ONCE));
    const pages = await Promise.all(
      group.map(async (entity) => {
        const after = entity === from?.entity ? (from.sequence ?? 0) : 0;
        return { entity, after, ...(await ledgerOf(env, tenantId, entity).page(after, { ...bounds, rows, bytes })) };
      }),
    );
    for (const { entity, after, facts: bodies, last, more } of pages) {
      const taken = bodies.slice(0, countWithin(bodies, rows, bytes));
      rows -= taken.length;
      bytes -= taken.reduce((sum, body) => sum + byteLength(body), 0);
      const facts = taken.map((body) => JSON.parse(body) as RecordedFact);
      const ended = !more && taken.length === bodies.length;
      parts.push({ entity, facts, first: facts[0]?.sequence ?? Math.max(after, last) + 1, ended });
      const end = facts.at(-1)?.sequence ?? after;
      if (!ended) return { parts, next: { entity, sequence: end } };
      at++;
      if ((rows <= 0 || bytes <= 0) && at < known.length) return { parts, next: { entity, sequence: null } };
    }
  }
  const lastEntity = entities.at(-1);
  return { parts, next: lastEntity !== undefined && known.length > most ? { entity: lastEntity, sequence: null } : null };
}

/** How many of these there is room for. */
function countWithin(bodies: readonly string[], rows: number, bytes: number): number {
  let count = 0;
  for (let size = 0; count < Math.min(rows, bodies.length) && size < bytes; count++) size += byteLength(bodies[count] as string);
  return count;
}
