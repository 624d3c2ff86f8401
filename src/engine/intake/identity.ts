import type { Identity } from "../store/instances/keys.ts";

/** An identity as one text. */
export function identityOf({ id, fingerprint }: Identity): string {
  return `${id}/${fingerprint}`;
}

/** The first of those that ask for the same: the order of a batch decides, as it does in the database. */
export function firstOf<T extends Identity>(all: readonly T[]): T[] {
  const seen = new Set<string>();
  return all.filter((one) => {
    const known = seen.has(identityOf(one));
    seen.add(identityOf(one));
    return !known;
  });
}

/** Rows by whose they are. */
export function byIdentity<T extends Identity>(rows: readonly T[]): ReadonlyMap<string, T> {
  return new Map(rows.map((row) => [identityOf(row), row]));
}
