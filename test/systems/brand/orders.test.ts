import { expect, it } from "vitest";
import { howMany } from "../../full-size.ts";
import { play } from "./playing.ts";

/** One site and one account: for each of three keywords its research, article, page and post. */
const CYCLE = {
  messages: {
    "brand.cycle": 1,
    "brand.cycle_ended": 1,
    "research.requested": 3,
    "research.completed": 3,
    "content.generated": 3,
    "content.publish": 3,
    "social.create": 3,
    "content.published": 3,
    "social.posted": 3,
  },
  instances: 13,
};

/** The number of orders that are tested concurrently. */
const TOGETHER = howMany(4, 10);
const from = (first: number) => Array.from({ length: TOGETHER }, (_, index) => first + index);

it.each([1, 11, 21, 31, 41].slice(0, howMany(1, 5)))(
  "a cycle of three keywords has one outcome of each, and pays once, when each message is delivered twice: in shuffled orders from number %i on",
  { timeout: 120_000 },
  async (first) => expect(await play(from(first), CYCLE)).toHaveLength(TOGETHER),
);

it("a cycle of three keywords has the same outcome when the queues lose all messages and the agent dies halfway", {
  timeout: 120_000,
}, async () => {
  expect(await play(from(101), { ...CYCLE, isKilled: true })).toHaveLength(TOGETHER);
});
