import { expect, it } from "vitest";
import { callerWith } from "../api/client.ts";
import { type Choose, Stage } from "./interleaved.ts";

declare const MILLRACE_FULL_SIZE: boolean;

/** Orders that are tried of each story: all of them, or so many by chance. */
const SAMPLE = 8;
/** Where an exhaustive walk is given up: whoever waits for another may look any number of times. */
const MOST = 20_000;

/** Plays a story in many orders. Each run answers how many could go on at each choice, so that the next one takes another way. */
async function everyOrder(seed: number, run: (choose: Choose) => Promise<void>, sample = SAMPLE): Promise<number> {
  let runs = 0;
  if (!MILLRACE_FULL_SIZE) {
    let state = seed;
    const random = (count: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * count);
    };
    for (; runs < sample; runs++) await run(random);
    return runs;
  }
  let path: number[] = [];
  for (; runs < MOST; runs++) {
    const counts: number[] = [];
    await run((count) => {
      const choice = path[counts.length] ?? 0;
      counts.push(count);
      return Math.min(choice, count - 1);
    });
    path = counts.map((_, index) => path[index] ?? 0);
    while (path.length > 0 && (path.at(-1) ?? 0) + 1 >= (counts[path.length - 1] ?? 0)) path.pop();
    if (path.length === 0) return runs + 1;
    path.push((path.pop() ?? 0) + 1);
  }
  return runs;
}

const stories = [
  {
    name: "two syncs and a change here",
    actors: (stage: Stage) => ({ a: stage.sync, b: stage.sync, file: stage.here({ phone: "1" }) }),
    end: { phone: "1", city: "0" },
  },
  {
    name: "a sync, a contact.sync and a change here",
    actors: (stage: Stage) => ({ a: stage.sync, b: stage.one, file: stage.here({ phone: "1" }) }),
    end: { phone: "1", city: "0" },
  },
  {
    name: "two syncs, a change here, and one in the CRM with its notice",
    actors: (stage: Stage) => ({ a: stage.sync, b: stage.one, file: stage.here({ phone: "1" }), person: stage.there({ city: "1" }) }),
    end: { phone: "1", city: "1" },
  },
];

it.each(stories)(
  "$name, in any order: both sides have the same at rest, and nothing is lost",
  async ({ actors, end }) => {
    const caller = await callerWith();
    await everyOrder(11, async (choose) => {
      const stage = new Stage(caller);
      await stage.begin();
      const course = await stage.play(actors(stage), choose);
      expect(await stage.settled(), course.join("\n")).toEqual({ here: end, there: end, pending: false });
    });
  },
  300_000,
);

it("a sync that dies at any point loses nothing either, and what it may have written is not taken for a person's", async () => {
  const caller = await callerWith();
  for (let gate = 0; gate < 5; gate++) {
    await everyOrder(
      gate + 1,
      async (choose) => {
        const stage = new Stage(caller);
        await stage.begin();
        await stage.play({ file: stage.here({ phone: "1" }) }, choose);
        const actors = { a: stage.sync, b: stage.one, file: stage.here({ phone: "2" }) };
        const course = await stage.play(actors, choose, { actor: "a", gate });
        const end = { phone: "2", city: "0" };
        expect(await stage.settled(), course.join("\n")).toEqual({ here: end, there: end, pending: false });
      },
      3,
    );
  }
}, 300_000);

it("where both sides change one property, in any order, they agree at rest on one of the two values", async () => {
  const caller = await callerWith();
  await everyOrder(7, async (choose) => {
    const stage = new Stage(caller);
    await stage.begin();
    const course = await stage.play({ a: stage.sync, file: stage.here({ phone: "1" }), person: stage.there({ phone: "2" }) }, choose);
    const { here, there, pending } = await stage.settled();
    expect(pending, course.join("\n")).toBe(false);
    expect(here, course.join("\n")).toEqual(there);
    expect(["1", "2"], course.join("\n")).toContain(here.phone);
  });
}, 300_000);
