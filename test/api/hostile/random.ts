/** Pseudo-random numbers that are equal for equal seeds, and choices based on them. */
export interface Random {
  below: (most: number) => number;
  /** True with this probability. */
  chance: (share: number) => boolean;
  pick: <T>(items: readonly T[]) => T;
}

/** Mulberry32: 32 bits of state suffice for a test. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (most: number) => Math.floor(next() * most);
  return {
    below,
    chance: (share) => next() < share,
    pick: (items) => items[below(items.length)] as (typeof items)[number],
  };
}
