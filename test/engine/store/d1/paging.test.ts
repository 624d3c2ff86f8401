import { keysetPage } from "millrace/operate";
import { expect, it } from "vitest";

/** Items with equal times among them, newest first. */
const ITEMS = Array.from({ length: 23 }, (_, index) => ({ at: 1000 - Math.floor(index / 4), id: `i${String(99 - index)}` }));

const load = async (before: { at: number; id: string }, limit: number) =>
  ITEMS.filter(({ at, id }) => at < before.at || (at === before.at && id < before.id)).slice(0, limit);

it.each([1, 2, 4, 7, 22, 23, 24])(
  "pages of %i items contain each item once and in order, and the last page has no `next`",
  async (limit) => {
    const seen: unknown[] = [];
    let cursor: string | undefined;
    for (;;) {
      const { items, next } = await keysetPage({ cursor, limit }, (item) => item, load);
      seen.push(...items);
      if (next === null) break;
      expect(items).toHaveLength(limit);
      cursor = next;
    }
    expect(seen).toEqual(ITEMS);
  },
);

it("a list with an invalid cursor starts at the beginning, and a limit above the maximum is the maximum", async () => {
  expect((await keysetPage({ cursor: "what?", limit: 1 }, (item) => item, load)).items).toEqual(ITEMS.slice(0, 1));
  let asked = 0;
  await keysetPage(
    { limit: 10_000 },
    (item: { at: number; id: string }) => item,
    async (_, limit) => {
      asked = limit;
      return [];
    },
  );
  expect(asked).toBe(201);
});

it("a list that ended early continues from its cursor", async () => {
  const { items, next } = await keysetPage(
    { limit: 5 },
    (item) => item,
    async () => ({ found: ITEMS.slice(0, 2), end: { at: 7, id: "i7" } }),
  );
  expect(items).toEqual(ITEMS.slice(0, 2));
  expect(next).toBe("7.i7");
});
