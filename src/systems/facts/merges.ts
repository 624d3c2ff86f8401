/** A fact that two contacts are one person. */
export interface Merge {
  entity: string;
  fact_id: string;
  occurred_at: string;
  from: string;
  into: string;
}

/** Shifts every ISO 8601 time to a positive number of milliseconds, so that all numbers have the same length. */
const SHIFT_MS = 10 ** 14;

/**
 * A merge's position among all merges, as sortable text: by its time, then by its name. The position depends only on the fact's content, so
 * every order of arrival gives the same order.
 */
export function orderOf({ occurred_at, fact_id, entity }: Merge): string {
  return `${String(Date.parse(occurred_at) + SHIFT_MS).padStart(16, "0")} ${JSON.stringify([fact_id, entity])}`;
}

export type OrderedMerge = Pick<Merge, "from" | "into"> & { order: string };

/**
 * The canonical contact of each contact, from the set of merges. In order, the canonical contact of `from` becomes that of `into`. A merge
 * of two contacts that are already one changes nothing, which also handles cycles.
 */
export function foldMerges(merges: readonly OrderedMerge[]): Map<string, string> {
  const parents = new Map<string, string>();
  const canonical = (contact: string): string => {
    let root = contact;
    for (let parent = parents.get(root); parent !== undefined && parent !== root; parent = parents.get(root)) root = parent;
    // Shortens the path, so that a long chain is followed only once.
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
