import { expect, it } from "vitest";
import { callerWith, fresh } from "../api/client.ts";
import { cycle, decided, decisions, fail, paidFor, stands, verdicts } from "./brand.ts";

it("a keyword without anything is researched once, however it is written; one that is live is skipped in the next cycle", async () => {
  const caller = await callerWith();
  const [brand, word] = [fresh("brand"), fresh("tea")];
  const first = await cycle(caller, { brand, cycle: "w1", keywords: [`${word} Pots`, ` ${word}  pots`, `${word.toUpperCase()} POTS`] });
  await decided(caller, first);
  expect(await stands(caller, brand, { live: 1 })).toEqual({ live: 1, drafts: 0, on_their_way: 0, held: 0 });

  await decided(caller, await cycle(caller, { brand, cycle: "w2", keywords: [`${word} pots`] }));
  const [one, two, ...more] = await decisions(caller, brand);
  expect(more).toEqual([]);
  expect(one).toMatchObject({ cycle: "w1", verdict: "requested", reason: expect.stringContaining("it is researched") });
  expect(two).toMatchObject({ cycle: "w2", verdict: "skipped", reason: "It has an article that people can read." });
  expect(two.grounds.content_id).toMatch(/^[0-9a-f]{32}$/);
  expect(await paidFor(word)).toEqual({ search: 1, text: 1 });
  await fail();
  expect(await verdicts(caller, brand)).toHaveLength(2);
});
