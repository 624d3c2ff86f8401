import type { Identity } from "../store/instances/keys.ts";
import { isSamePayload } from "../store/tombstones.ts";

/** A map by id and fingerprint. The map does not find a message whose id is in the map with a different fingerprint. */
export interface ByIdentity<T> {
  get(one: Identity): T | undefined;
  has(one: Identity): boolean;
}

export function byIdentity<T extends Identity>(rows: readonly T[]): ByIdentity<T> {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const get = ({ id, fingerprint }: Identity) => {
    const row = byId.get(id);
    return row !== undefined && isSamePayload(row.fingerprint, fingerprint) ? row : undefined;
  };
  return { get, has: (one) => get(one) !== undefined };
}

/**
 * Returns the first message of each set of equal messages, in the order of the batch. The database accepts the same message of each set.
 */
export function firstOf<T extends Identity>(all: readonly T[]): T[] {
  const seen = new Map<string, string[]>();
  return all.filter(({ id, fingerprint }) => {
    const known = seen.get(id);
    if (known === undefined) return seen.set(id, [fingerprint]);
    return !known.includes(fingerprint) && known.push(fingerprint);
  });
}
