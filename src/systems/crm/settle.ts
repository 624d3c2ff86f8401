import { isSame, isTakeable, type Properties } from "./properties.ts";

/** The changes that make a contact and its CRM record equal. */
export interface Settled {
  /** Changes in the CRM, to copy to our contact. */
  take: Record<string, string>;
  /** Changes of our contact, to send to the CRM. */
  send: Record<string, string>;
  /** The new known values of the CRM, without those in `send`. */
  seen: Record<string, string>;
}

/**
 * Compares our contact and its CRM record with the last known values of the CRM, property by property. A contact or record that differs
 * from the known values has changed.
 * If both changed differently, the CRM's value wins, because a person wrote it. Values that we wrote, or may have written (`maybe`, for
 * an unknown outcome), count as no changes, so an echo of our write has no effect. `theirs` is null if the CRM has no record yet, or it
 * was
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
    // A property that the read did not request is unknown; a property that is empty in the CRM is null.
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
