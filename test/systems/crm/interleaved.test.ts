import { expect, it } from "vitest";
import { callerWith } from "../../api/client.ts";
import { IS_FULL_SIZE } from "../../full-size.ts";
import { type Choose, Stage } from "./interleaved.ts";

/**
 * The number of tested orders per scenario; in full size as many as fit into this number of seconds. The number of orders is unlimited,
 * because a waiting worker may poll any number of times.
 */
const SAMPLE = { orders: 8, seconds: 60 };

/** Runs a scenario in many random orders, and returns the number of different ones. */
async function inSomeOrders(name: string, run: (choose: Choose) => Promise<string[]>, { orders, seconds } = SAMPLE): Promise<void> {
  const endsAt = Date.now() + seconds * 1000;
  const courses = new Set<string>();
  for (let seed = 1; IS_FULL_SIZE ? Date.now() < endsAt : seed <= orders; seed++) {
    let state = Math.imul(seed, 0x9e3779b9) >>> 0;
    const course = await run((count) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * count);
    });
    courses.add(course.join());
  }
  console.log(`${name}: ${courses.size} orders`);
}

const stories = [
  {
    name: "two syncs and a change in the engine",
    actors: (stage: Stage) => ({ a: stage.sync, b: stage.sync, file: stage.here({ phone: "1" }) }),
    end: { phone: "1", city: "0" },
  },
  {
    name: "a sync, a contact.sync and a change in the engine",
    actors: (stage: Stage) => ({ a: stage.sync, b: stage.one, file: stage.here({ phone: "1" }) }),
    end: { phone: "1", city: "0" },
  },
  {
    name: "two syncs, a change in the engine, and a change in the CRM with its webhook",
    actors: (stage: Stage) => ({ a: stage.sync, b: stage.one, file: stage.here({ phone: "1" }), person: stage.there({ city: "1" }) }),
    end: { phone: "1", city: "1" },
  },
];

it.each(stories)(
  "after $name, in any order, the CRM and the engine agree at the end, and nothing is lost",
  async ({ name, actors, end }) => {
    const caller = await callerWith();
    await inSomeOrders(name, async (choose) => {
      const stage = new Stage(caller);
      await stage.begin();
      const course = await stage.play(actors(stage), choose);
      expect(await stage.settled(), course.join("\n")).toEqual({ here: end, there: end, pending: false });
      return course;
    });
  },
  300_000,
);

/** Gates before which a worker may die. */
const MORTALS = [
  { who: "a sync", of: (stage: Stage) => stage.sync, gates: 5 },
  { who: "a contact.sync", of: (stage: Stage) => stage.one, gates: 7 },
];

it.each(MORTALS)(
  "when $who dies at any point, nothing is lost, and its possible writes are not mistaken for a user's",
  async ({ who, of, gates }) => {
    const caller = await callerWith();
    for (let gate = 0; gate < gates; gate++) {
      await inSomeOrders(
        `${who} dies before gate ${gate}`,
        async (choose) => {
          const stage = new Stage(caller);
          await stage.begin();
          await stage.play({ file: stage.here({ phone: "1" }) }, choose);
          const actors = { a: of(stage), b: stage.one, file: stage.here({ phone: "2" }) };
          const course = await stage.play(actors, choose, { actor: "a", gate });
          const end = { phone: "2", city: "0" };
          expect(await stage.settled(), course.join("\n")).toEqual({ here: end, there: end, pending: false });
          return course;
        },
        { orders: 3, seconds: 10 },
      );
    }
  },
  300_000,
);

it("the CRM and the engine agree at the end on one of two values when both change one property, in any order", async () => {
  const caller = await callerWith();
  await inSomeOrders("one property that changes in the CRM and in the engine", async (choose) => {
    const stage = new Stage(caller);
    await stage.begin();
    const course = await stage.play({ a: stage.sync, file: stage.here({ phone: "1" }), person: stage.there({ phone: "2" }) }, choose);
    const { here, there, pending } = await stage.settled();
    expect(pending, course.join("\n")).toBe(false);
    expect(here, course.join("\n")).toEqual(there);
    expect(["1", "2"], course.join("\n")).toContain(here.phone);
    return course;
  });
}, 300_000);
