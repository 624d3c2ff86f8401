import type { Random } from "../random.ts";
import { ALWAYS, type Body, LANES, type LaneName, RETRIES } from "./entries.ts";

/** All messages of one key of a lane, in their order. */
export interface Stream {
  lane: LaneName;
  key: string;
  bodies: Body[];
}

/** One in this number of messages fails, and may become a head that its policy applies to. */
const FAILS = 1 / 12;
const NAMES = Object.keys(LANES) as LaneName[];

/** Generates messages, the same number per key, for keys that are spread over the lanes. */
export function drawStreams(random: Random, { messages, keys }: { messages: number; keys: number }): Stream[] {
  return Array.from({ length: keys }, (_, at) => {
    const lane = NAMES[at % NAMES.length] as LaneName;
    const key = `key-${at}`;
    const count = Math.floor(messages / keys);
    return { lane, key, bodies: Array.from({ length: count }, (_, n) => ({ key, n: n + 1, fails: failsOf(random, lane, n, count) })) };
  });
}

/** The failures of a message. In the middle of each key one message fails as its lane's policy expects. */
function failsOf(random: Random, lane: LaneName, n: number, count: number): number {
  const isSure = n === Math.floor(count / 2);
  if (!isSure && !random.chance(FAILS)) return 0;
  const isGivenUp = isSure || random.chance(0.5);
  if (!isGivenUp) return random.between(1, RETRIES.limit);
  if (lane === "parking") return ALWAYS;
  // More failures than its retries and an operator's additional attempt.
  const isForGood = lane === "holding" && random.chance(0.5);
  return isForGood ? ALWAYS : RETRIES.limit + random.between(1, 3);
}
