import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { ObserveApi, QueueHealth } from "./api.ts";

/** The job of the first chapter, and what it asks for. */
export const FIRST_JOB = "healthy";
const KEYWORDS = ["cold brew", "flat white", "moka pot", "oat milk", "pour over", "ristretto"];
/** Research, text, page and post of each. */
export const CHAIN = ["research-keyword", "generate-article", "publish-article", "post-to-social"];

/** Has articles written and published, and shows what is counted of it. */
export async function healthyMoment(api: ObserveApi, until: Until): Promise<void> {
  await api.askFor(FIRST_JOB, KEYWORDS);
  const all = KEYWORDS.length * CHAIN.length;
  await until(async () => completeOf(await api.instances(FIRST_JOB)) === all, `${all} instances are complete`);
  say(`  ${KEYWORDS.length} commands became ${all} instances; all are complete.`);
  const published = `millrace_instances_ended_total{workflow="post-to-social",status="complete",code=""} ${KEYWORDS.length}`;
  await until(async () => (await api.metrics()).includes(published), "the ends of all runs are counted");

  const { items } = await api.queues();
  const busy = items.filter(({ in_per_minute, out_per_minute }) => in_per_minute + out_per_minute > 0);
  say(paint("dim", `\n  ${column("GET /v1/queues", 24)}in/min  out/min  sent back  waiting  dead  p99`));
  for (const queue of busy) say(`  ${rowOf(queue)}`);
  say(paint("dim", "\n  GET /metrics, of which one line is"));
  say(`  ${published}`);
  const wrong = busy.filter(({ retry_share, depth, dead_letters_open }) => retry_share !== 0 || depth !== 0 || dead_letters_open !== 0);
  if (busy.length === 0) throw new Refusal("GET /v1/queues shows nothing of what went through the queues.");
  if (wrong.length > 0) throw new Refusal(`${wrong.map(({ queue }) => queue).join(", ")}: not healthy, although nothing is wrong.`);
  const firing = await api.firing();
  if (firing.length > 0) throw new Refusal(`Nothing is wrong, and these alerts fire: ${firing.map(({ rule }) => rule).join(", ")}.`);
}

export function completeOf(instances: readonly { status: string }[]): number {
  return instances.filter(({ status }) => status === "complete").length;
}

function rowOf({
  queue,
  in_per_minute,
  out_per_minute,
  retry_share,
  depth,
  dead_letters_open,
  processing_p99_seconds,
}: QueueHealth): string {
  const right = (text: string | number, width: number) => String(text).padStart(width);
  const p99 = processing_p99_seconds === null ? "" : `${Math.round(processing_p99_seconds * 1000)} ms`;
  const share = retry_share === null ? "" : `${Math.round(retry_share * 100)} %`;
  return [
    paint("cyan", column(queue, 24)),
    right(in_per_minute.toFixed(1), 6),
    right(out_per_minute.toFixed(1), 9),
    right(share, 11),
    right(depth ?? "", 9),
    right(dead_letters_open, 6),
    right(p99, 8),
  ].join("");
}
