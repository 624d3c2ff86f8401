import { expect, it } from "vitest";
import { killLanes } from "./kill.ts";

/** To run the full number of messages: MILLRACE_FULL_SIZE=true npx vitest run --project node test/chaos/lanes/kill */
const SIZE =
  process.env.MILLRACE_FULL_SIZE === "true"
    ? { messages: 5000, keys: 50, kills: 20, power: 5, turns: { keys: 10, each: 10 }, looks: false }
    : { messages: 300, keys: 10, kills: 2, power: 0, turns: { keys: 0, each: 0 }, looks: true };

it(`L01 ${SIZE.messages} messages of ${SIZE.keys} keys keep their order and none is lost, through ${SIZE.kills} kills and failing heads of all three policies`, async () => {
  const killed = await killLanes({ seed: 20_261_123, ...SIZE, say: (line) => console.log(line) });
  const { problems, left, messages, keys, kills, lives, turns } = killed;
  console.log(JSON.stringify(killed));
  expect(problems).toEqual([]);
  expect(left).toEqual([]);
  expect({ messages, keys, kills, lives, turns }).toEqual({
    messages: SIZE.messages,
    keys: SIZE.keys,
    kills: SIZE.kills,
    lives: SIZE.kills + 1,
    turns: SIZE.turns.keys * SIZE.turns.each,
  });
}, 600_000);
