import { isSame, isTakeable, type Properties } from "./properties.ts";

/** The changes that make both sides equal. */
export interface Settled {
  /** The CRM's changes, to copy here. */
  take: Record<string, string>;
  /** Our changes, to send to the CRM. */
  send: Record<string, string>;
  /** The new known values of the CRM, apart from those in `send`. */
  seen: Record<string, string>;
}

/**
 * Compares both sides with the CRM's last known values, property by property. A side that differs has changed. If both changed differently,
 * the CRM's value wins, because a person wrote it there. Values that we wrote, or may have written (`maybe`: values of pushes with an
 * unknown outcome), are not changes, so an echo of our own write has no effect. `theirs` is null if the CRM has no record yet, or it was
 * not read.
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
    // A property that was not requested is unknown; a property that is empty in the CRM is null.
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
