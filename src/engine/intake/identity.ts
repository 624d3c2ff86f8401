/**
 * What a message asks for under which name. The instance's id says who wants it, of whom, under which key; the fingerprint says what.
 * Two messages of one id may ask for different things: the row of that id decides which of them was accepted. So nothing in this room
 * is looked up by an id alone, but the row itself.
 */
export interface Identity {
  readonly id: string;
  readonly fingerprint: string;
}

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
