import type { Instance } from "../../api-client.ts";
import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { ObserveApi } from "./api.ts";
import { CHAIN, completeOf, FIRST_JOB } from "./healthy.ts";
import type { Outside } from "./outside.ts";
import { type Branch, barOf, type Span, saidOf, timesOf, treeOf } from "./tree.ts";

const BAR = 32;

/** So many more are asked for: a collector that was too slow is left alone for half a minute, and has nothing of what was done then. */
const MORE_ARTICLES = 2;

/**
 * Shows the trace of one of the first articles as a tree, and answers its instances, in the order of the chain. Where the collector is too
 * slow to have one whole, another article is asked for. Errors: a `Refusal` where there is no tree.
 */
export async function traceOfJob(api: Pick<ObserveApi, "instances" | "askFor">, { spans }: Pick<Outside, "spans">, until: Until) {
  let instances = await api.instances(FIRST_JOB);
  const trees = () => instances.filter(({ workflow }) => workflow === CHAIN[0]).map(({ id }) => treeOf(traceWith(spans, id)));
  const whole = () => trees().find((tree) => differences(tree).length === 0);
  for (let more = 1; !whole(); more++) {
    if (more > MORE_ARTICLES) throw new Refusal(differences(trees().at(-1) ?? []).join(" "));
    say(paint("dim", "  The collector was too slow to have the whole of one: another article is asked for."));
    const job = `traced ${more}`;
    await api.askFor(job, [`lungo ${more}`]);
    await until(async () => {
      instances = await api.instances(job);
      return completeOf(instances) === CHAIN.length;
    }, "another article is published");
    await until(() => whole() !== undefined, "the collector has the whole chain").catch(unlessStopped);
  }
  return shown(whole() ?? [], instances);
}

function unlessStopped(error: unknown): void {
  if (!(error instanceof Refusal)) throw error;
}

/** Says a trace as a tree, and answers the instances that are in it. */
function shown(tree: readonly Branch[], instances: readonly Instance[]): Instance[] {
  const whole = wholeOf(tree);
  for (const { span, depth } of tree) {
    const times = timesOf(span);
    const name = paint(CHAIN.includes(span.name) ? "cyan" : "dim", column(`${"  ".repeat(depth)}${span.name}`, 48));
    say(`  ${name} ${paint("green", barOf(times, whole, BAR))} ${times.ms.toFixed(0).padStart(5)} ms`);
  }
  const ids = new Set(tree.map(({ span }) => saidOf(span, "millrace.instance_id")));
  const own = instances.filter(({ id }) => ids.has(id));
  say(`\n  ${paint("green", "✓")} ${tree.length} spans of ${own.length} instances, one tree: ${tree[0]?.span.name} is where it began.`);
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
