import { isSame, isTakeable, type Properties } from "./properties.ts";

/** The changes after which a contact and its CRM record are equal. */
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
 * from the known values has changed. If a property changed differently in both, the CRM's value is used, because a person wrote that value.
 * A value that we wrote does not count as a change, so the notice of our own write has no effect. `maybe` contains values that we may have
 * written, in calls with an unknown outcome. `theirs` is null if the CRM has no record yet, or the record was not read.
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
    // A property that the read did not request is absent in `theirs`. A property that is empty in the CRM is null in `theirs`.
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
