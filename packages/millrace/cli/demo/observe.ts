import { join } from "node:path";
import { paint, say, seconds } from "../terminal.ts";
import { observeApi } from "./observe/api.ts";
import { whatItCost } from "./observe/cost.ts";
import { healthyMoment } from "./observe/healthy.ts";
import { outage, recovery } from "./observe/outage.ts";
import { type Outside, startOutside } from "./observe/outside.ts";
import { traceOfJob } from "./observe/trace.ts";
import { chapter, type Stage, type Story } from "./story.ts";
import { untilWith } from "./until.ts";

/** Each look asks the engine. */
const LOOK_MS = 250;

export const observe: Story = {
  title: "a healthy moment, an outage, grouped alerts, recovery, one job's trace and its cost",
  entry: join(import.meta.dirname, "observe/worker.ts"),
  async open() {
    const outside = await startOutside();
    return {
      vars: { ...outside.vars, KEEPER_PERIOD_MS: "1000" },
      tell: (stage) => tell(stage, outside),
      stop: outside.stop,
    };
  },
};

async function tell({ engine, stop }: Stage, outside: Outside): Promise<void> {
  const beganAt = Date.now();
  const api = observeApi(engine);
  const until = untilWith(stop, LOOK_MS);
  const about = [
    "Outside of the engine are a pager, which refuses every notice twice, and a collector of traces:",
    "what they have written down decides whether what is said here is true.",
  ];
  for (const line of about) say(paint("dim", `  ${line}`));

  chapter(1, "A healthy moment: articles are asked for, and come out at the other end.");
  await healthyMoment(api, until);

  chapter(2, "An outage: the search engine refuses everybody, and another program sends nonsense to the queue.");
  const storm = await outage(api, outside, until);

  chapter(3, "Recovery: the search engine works again. A person retries what failed, and looks after the dead letters.");
  await recovery(api, outside, storm, until);

  chapter(4, "One of the first articles, by its trace, as the collector has it");
  const job = await traceOfJob(api, outside, until);

  chapter(5, "What it cost, by list prices");
  await whatItCost(api, job);
  const proof = `${storm.troubles} troubles were ${storm.alerts} alerts, each heard once and then heard to be over`;
  say(`\n${paint("green", "✓")} ${paint("bold", `${proof}, in ${seconds(Date.now() - beganAt)}.`)}`);
}
