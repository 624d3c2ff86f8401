/** One fact that two contacts are one person. */
export interface Merge {
  entity: string;
  fact_id: string;
  occurred_at: string;
  from: string;
  into: string;
}

/** Shifts every year that ISO 8601 has to a positive number of milliseconds, with as many digits as the largest. */
const SHIFT_MS = 10 ** 14;

/**
 * A merge's place among all merges, as text that sorts: by the moment it happened, then by its name. It depends on nothing but what
 * the fact says, so every order of arrival leads to the same order.
 */
export function orderOf({ occurred_at, fact_id, entity }: Merge): string {
  return `${String(Date.parse(occurred_at) + SHIFT_MS).padStart(16, "0")} ${JSON.stringify([fact_id, entity])}`;
}

/** A merge with its place. */
export type OrderedMerge = Pick<Merge, "from" | "into"> & { order: string };

/**
 * Who is who, as the set of merges says: each contact's canonical one. In the order of the merges, what `from` is known as becomes
 * known as what `into` is known as; a merge of two that are one already changes nothing, which is all that a circle needs.
 */
export function foldMerges(merges: readonly OrderedMerge[]): Map<string, string> {
  const parents = new Map<string, string>();
  const canonical = (contact: string): string => {
    let root = contact;
    for (let parent = parents.get(root); parent !== undefined && parent !== root; parent = parents.get(root)) root = parent;
    // Shortens the path for the next who asks: a long chain is walked once.
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
