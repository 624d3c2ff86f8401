import type { Identity } from "../store/instances/keys.ts";

/** Things by whose they are: of each id one, which is another's for a message with another payload. */
export interface ByIdentity<T> {
  get(one: Identity): T | undefined;
  has(one: Identity): boolean;
}

/** Rows by whose they are. */
export function byIdentity<T extends Identity>(rows: readonly T[]): ByIdentity<T> {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const get = ({ id, fingerprint }: Identity) => {
    const row = byId.get(id);
    return row?.fingerprint === fingerprint ? row : undefined;
  };
  return { get, has: (one) => get(one) !== undefined };
}

/** The first of those that ask for the same: the order of a batch decides, as it does in the database. */
export function firstOf<T extends Identity>(all: readonly T[]): T[] {
  const seen = new Map<string, string[]>();
  return all.filter(({ id, fingerprint }) => {
    const known = seen.get(id);
    if (known === undefined) return seen.set(id, [fingerprint]);
    return !known.includes(fingerprint) && known.push(fingerprint);
  });
}
