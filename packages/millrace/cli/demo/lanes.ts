import { paint, say, seconds } from "../terminal.ts";
import { lanesApi } from "./lanes/api.ts";
import { startCallers } from "./lanes/carrier.ts";
import { demoWorker } from "./lanes/config.ts";
import { failingHeads } from "./lanes/heads.ts";
import { lateHolder } from "./lanes/holder.ts";
import { throughKill } from "./lanes/kill.ts";
import { type Outside, startOutside } from "./lanes/outside.ts";
import { chapter, type Stage, type Story } from "./story.ts";
import { untilWith } from "./until.ts";

export const lanes: Story = {
  title: "order through a kill; heads that block, park, hold; a limit after a 429; a lock's late holder",
  worker: demoWorker,
  async tell(stage) {
    const outside = await startOutside();
    try {
      await tell(stage, outside);
    } finally {
      outside.stop();
    }
  },
};

async function tell({ engine, stop }: Stage, outside: Outside): Promise<void> {
  const beganAt = Date.now();
  const api = lanesApi(engine, outside.url);
  const until = untilWith(stop);
  const about = [
    "A small Worker has lanes, a limit and a lock. Outside of it, in another process, are a warehouse, a carrier and a till:",
    "what they have written down decides whether what is said here is true.",
  ];
  for (const line of about) say(paint("dim", `  ${line}`));

  chapter(1, "A lane per order: its changes are told to the warehouse in order. In the middle: kill -9.");
  await throughKill(engine, api, outside, until);

  const callers = startCallers(api, outside, until, stop);
  try {
    chapter(2, "The warehouse refuses change 2 of an order. Three lanes, three policies for a head that has failed for good.");
    await failingHeads(api, outside, until);

    chapter(3, "A lock: ann and bob both want to close a shop's books.");
    await lateHolder(api, outside, until);

    chapter(4, "A limit of 20 calls a second, which 14 callers have shared since chapter 2: the carrier answers one of them 429.");
    await callers.tell();
  } finally {
    await callers.stop();
  }
  const proof = "Order, policies, fence and limit held, by the word of those outside";
  say(`\n${paint("green", "✓")} ${paint("bold", `${proof}, in ${seconds(Date.now() - beganAt)}.`)}`);
}
