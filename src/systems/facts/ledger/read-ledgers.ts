import { texts } from "millrace";
import type { RecordedFact } from "../../../messages/fact.ts";
import { ledgersFrom } from "../rebuild.ts";
import type { PageBounds } from "./fact-rows.ts";
import { ledgerOf } from "./ledgers.ts";

/** The position of a scan of a tenant's ledgers, after one fact or after a whole ledger. */
export interface LedgerPlace {
  entity: string;
  /** The last fact that was read; null if the whole ledger was read. */
  sequence: number | null;
}

/** The facts that were read from one ledger. */
export interface LedgerPart {
  entity: string;
  facts: RecordedFact[];
  /** The first position that was read. Facts at earlier positions were read before, or are pruned. */
  first: number;
  /** True if the ledger has no further requested facts. */
  ended: boolean;
}

/** Number of ledgers that are read concurrently. */
const AT_ONCE = 10;

/**
 * Reads a tenant's ledgers by name and position, directly from the ledgers' Durable Objects, so that facts missing in a projection are
 * included. A ledger is found only if the projection contains at least one of the ledger's facts.
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
    // The first ledger is read alone, because its facts may fill the whole page.
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
      bytes -= taken.reduce((sum, body) => sum + texts.byteLength(body), 0);
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

/** Returns the number of facts that fit into the page. */
function countWithin(bodies: readonly string[], rows: number, bytes: number): number {
  let count = 0;
  for (let size = 0; count < Math.min(rows, bodies.length) && size < bytes; count++) size += texts.byteLength(bodies[count] as string);
  return count;
}
