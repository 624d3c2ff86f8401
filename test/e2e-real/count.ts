/** One server's count of the articles: exactly one per article, or not. */
export interface Count {
  expected: number;
  found: number;
  duplicates: string[];
  lost: string[];
  /** Items without an article. */
  strange: string[];
}

/** Counts the items that belong to each name. */
export function countEach<Thing>(
  names: readonly string[],
  things: readonly Thing[],
  belongs: (thing: Thing, name: string) => boolean,
  shown: (thing: Thing) => string,
): Count {
  const owned = names.map((name) => ({ name, own: things.filter((thing) => belongs(thing, name)) }));
  return {
    expected: names.length,
    found: things.length,
    duplicates: owned.filter(({ own }) => own.length > 1).map(({ name, own }) => `${name}: ${own.map(shown).join(", ")}`),
    lost: owned.filter(({ own }) => own.length === 0).map(({ name }) => name),
    strange: things.filter((thing) => !names.some((name) => belongs(thing, name))).map(shown),
  };
}

/** True for exactly one item per name and no other items. */
export function isExact({ duplicates, lost, strange }: Count): boolean {
  return duplicates.length + lost.length + strange.length === 0;
}
