import { isSame, isTakeable, type Properties } from "./properties.ts";

/** What two sides must do to agree. */
export interface Settled {
  /** What the CRM changed: ours takes it. */
  take: Record<string, string>;
  /** What changed here: the CRM is to have it. */
  send: Record<string, string>;
  /** What is new in what the CRM is known to have, apart from `send`. */
  seen: Record<string, string>;
}

/**
 * Holds both sides against what the CRM was last known to have, property by property. Whoever differs from that has changed; where both
 * have, in different ways, the CRM's value counts, because a person wrote it there. What we wrote ourselves differs from nothing: so an
 * echo settles to nothing; and neither is what we may have written: `maybe` holds the values of pushes whose end is not known. `theirs` is
 * null when the CRM has no record yet, or nobody has looked.
 */
export function settle(
  ours: Properties,
  known: Properties,
  theirs: Readonly<Record<string, string | null>> | null,
  maybe: readonly Properties[] = [],
): Settled {
  const settled: Settled = { take: {}, send: {}, seen: {} };
  for (const property of Object.keys(ours)) {
    const our = ours[property] ?? "";
    const base = known[property] ?? "";
    // A property that was not asked for says nothing; one that is empty there is null.
    const their = theirs && property in theirs ? (theirs[property] ?? "") : base;
    const theyChanged = !isSame(property, their, base);
    if (theyChanged && isSame(property, their, our)) settled.seen[property] = their;
    else if (theyChanged && maybe.some((sent) => property in sent && isSame(property, sent[property] ?? "", their))) {
      settled.seen[property] = their;
      settled.send[property] = our;
    } else if (theyChanged && isTakeable(property, their)) {
      settled.take[property] = their;
      settled.seen[property] = their;
    } else if (!isSame(property, our, their) || (!theirs && maybe.some((sent) => property in sent))) settled.send[property] = our;
  }
  return settled;
}
