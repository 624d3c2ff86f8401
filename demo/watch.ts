import { setTimeout as sleep } from "node:timers/promises";
import type { Instance } from "../packages/millrace/cli/api-client.ts";
import { Refusal } from "../packages/millrace/cli/command.ts";
import { paint, say } from "../packages/millrace/cli/terminal.ts";
import type { BrandApi } from "./api.ts";
import { aboutOf, isOpen, type Timeline } from "./timeline.ts";

const LOOK_EVERY_MS = 150;
/** Milliseconds. An instance that is open for longer than this time probably waits for a retry. */
const SLOW_MS = 250;

/** Shows a job's progress until the job has `expected` instances and no instance is open. Returns these instances. */
export async function watch(job: {
  api: BrandApi;
  correlation: string;
  timeline: Timeline;
  expected: number;
  withinMs: number;
  stop: AbortSignal;
}): Promise<Instance[]> {
  const { api, correlation, timeline, expected, withinMs, stop } = job;
  const deadline = Date.now() + withinMs;
  for (;;) {
    stop.throwIfAborted();
    const instances = await api.instances(correlation);
    const open = instances.filter(isOpen);
    const slow = open.filter(({ accepted_at }) => Date.now() - Date.parse(accepted_at) > SLOW_MS);
    const steps = new Map(await Promise.all(slow.map(async ({ id }) => [id, await api.steps(id)] as const)));
    for (const line of timeline.news(instances, steps)) say(line);
    if (open.length === 0 && instances.length >= expected) return instances;
    if (Date.now() > deadline) {
      const left = open.map((one) => `${one.workflow} of “${aboutOf(one, instances)}” is ${one.status}`);
      throw new Refusal(
        `After ${withinMs / 1000} s there are ${instances.length} of ${expected} instances${left.length > 0 ? `, and ${left.join(", ")}` : ""}. The engine's log says more.`,
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
}

/** Prints a heading. */
export function chapter(number: number, title: string): void {
  say(`\n${paint("bold", `${number}  ${title}`)}`);
}
