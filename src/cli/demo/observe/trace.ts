import type { Instance } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { ObserveApi } from "./api.ts";
import { CHAIN, FIRST_JOB } from "./healthy.ts";
import type { Outside } from "./outside.ts";
import { type Branch, barOf, type Span, saidOf, timesOf, treeOf } from "./tree.ts";

const BAR = 32;

/** Shows one article's trace as a tree, and answers its instances, in the order of the chain. Errors: a `Refusal` where it is no tree. */
export async function traceOfJob(api: ObserveApi, { spans }: Outside, until: Until): Promise<Instance[]> {
  const instances = await api.instances(FIRST_JOB);
  const ofTrace = () => traceWith(spans, instances.find(({ workflow }) => workflow === CHAIN[0])?.id ?? "");
  await until(() => CHAIN.every((workflow) => ofTrace().some(({ name }) => name === workflow)), "the collector has the whole chain");
  const tree = treeOf(ofTrace());
  const [root] = tree;
  const wrong = differences(tree);
  if (!root || wrong.length > 0) throw new Refusal(wrong.join(" "));
  const whole = wholeOf(tree);
  for (const { span, depth } of tree) {
    const times = timesOf(span);
    const name = paint(CHAIN.includes(span.name) ? "cyan" : "dim", column(`${"  ".repeat(depth)}${span.name}`, 48));
    say(`  ${name} ${paint("green", barOf(times, whole, BAR))} ${times.ms.toFixed(0).padStart(5)} ms`);
  }
  const ids = new Set(tree.map(({ span }) => saidOf(span, "millrace.instance_id")));
  const own = instances.filter(({ id }) => ids.has(id));
  say(`\n  ${paint("green", "✓")} ${tree.length} spans of ${own.length} instances, one tree: ${root.span.name} is where it began.`);
  return CHAIN.flatMap((name) => own.filter(({ workflow }) => workflow === name));
}

/** All spans of the trace that an instance is part of. */
function traceWith(spans: readonly Span[], instanceId: string): Span[] {
  const of = spans.find((span) => saidOf(span, "millrace.instance_id") === instanceId)?.traceId;
  return spans.filter(({ traceId }) => traceId === of);
}

function wholeOf(tree: readonly Branch[]): { at: number; ms: number } {
  const times = tree.map(({ span }) => timesOf(span));
  const at = Math.min(...times.map((one) => one.at));
  return { at, ms: Math.max(...times.map((one) => one.at + one.ms)) - at };
}

/** Why spans are no trace of one chain, each as a sentence. */
export function differences(tree: readonly Branch[]): string[] {
  const roots = tree.filter(({ depth }) => depth === 0).map(({ span }) => span.name);
  const missing = CHAIN.filter((workflow) => tree.filter(({ span }) => span.name === workflow).length !== 1);
  const twice = tree.length - new Set(tree.map(({ span }) => span.spanId)).size;
  return [
    ...(roots.length === 1 ? [] : [`The trace has ${roots.length} beginnings: ${roots.join(", ")}.`]),
    ...(missing.length === 0 ? [] : [`The trace has not one span of ${missing.join(", ")}.`]),
    ...(twice === 0 ? [] : [`${twice} spans were said twice.`]),
  ];
}
