/** A fact which states that two contacts are the same person. */
export interface Merge {
  entity: string;
  fact_id: string;
  occurred_at: string;
  from: string;
  into: string;
}

/** This offset makes every ISO 8601 time a positive number of milliseconds, so that numbers of equal length can be compared as text. */
const SHIFT_MS = 10 ** 14;

/**
 * Returns a merge's sort key: merges are ordered by time, then by name. The sort key depends only on the fact's content, so the order of
 * arrival does not change the order of merges.
 */
export function orderOf({ occurred_at, fact_id, entity }: Merge): string {
  return `${String(Date.parse(occurred_at) + SHIFT_MS).padStart(16, "0")} ${JSON.stringify([fact_id, entity])}`;
}

export type OrderedMerge = Pick<Merge, "from" | "into"> & { order: string };

/**
 * Computes the canonical contact of each contact from ordered merges. Each merge replaces the canonical contact of `from` by the canonical
 * contact of `into`. A merge of two contacts with the same canonical contact changes nothing, so cycles are harmless.
 */
export function foldMerges(merges: readonly OrderedMerge[]): Map<string, string> {
  const parents = new Map<string, string>();
  const canonical = (contact: string): string => {
    let root = contact;
    for (let parent = parents.get(root); parent !== undefined && parent !== root; parent = parents.get(root)) root = parent;
    // Links each contact of the chain directly to the canonical contact, so that a long chain is followed only once.
    for (let at = contact; at !== root; ) {
      const next = parents.get(at) ?? root;
      parents.set(at, root);
      at = next;
    }
    return root;
  };
  for (const { from, into } of [...merges].sort(byOrder)) {
    const known = canonical(into);
    parents.set(known, known);
    parents.set(canonical(from), known);
  }
  return new Map([...parents.keys()].map((contact) => [contact, canonical(contact)]));
}

function byOrder(one: OrderedMerge, other: OrderedMerge): number {
  return one.order < other.order ? -1 : one.order > other.order ? 1 : 0;
}
