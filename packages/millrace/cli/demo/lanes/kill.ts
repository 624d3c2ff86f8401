import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../../command.ts";
import type { Engine } from "../../local/engine-process.ts";
import { column, paint, say, seconds } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { Change, LanesApi } from "./api.ts";
import type { Heard, Outside } from "./outside.ts";

const ORDERS = Array.from({ length: 10 }, (_, at) => `order-${at + 1}`);
const STEPS = 40;
/** Changes that come after the kill. */
const LATER = 2;
/** The warehouse has heard so many when the kill comes. */
const KILL_AT = 140;
/** Most messages that a handler is given at once: as many may be under way when it dies. */
const BATCH = 10;
/** As many orders are shown; all are looked at. */
const SHOWN = 4;
/** As many complaints are said, where something is wrong. */
const COMPLAINTS = 3;
const BACK_MS = 60_000;

/** Sends changes of many orders, kills the runtime that hands them out, and shows what the warehouse heard. */
export async function throughKill(engine: Engine, api: LanesApi, outside: Outside, until: Until): Promise<void> {
  const { kept } = await api.send("orders", changesOf(STEPS));
  say(`  ${kept} changes are on disk, and are told to the warehouse, each order by itself.`);
  await until(() => outside.heard.length >= KILL_AT, "the warehouse hears of the changes");
  const killed = await engine.kill9("runtime");
  const killedAt = Date.now();
  // What was on its way is heard before it is counted.
  await sleep(50);
  const before = outside.heard.length;
  say(paint("red", `  kill -9 of process ${killed.join(", ")}, when the warehouse had heard ${before}.`));
  if (killed.length === 0) throw new Refusal("There was no process to kill.");
  if (before >= kept) throw new Refusal("The kill came too late: everything had been told before it.");
  if (!(await engine.answers(BACK_MS))) throw new Refusal(`The runtime did not come back within ${seconds(BACK_MS)}.`);
  say(`  Process ${engine.runtime().join(", ")} goes on from the disk, ${seconds(Date.now() - killedAt)} later.`);

  const again = await api.send("orders", changesOf(STEPS + LATER));
  const known = `${again.known} are known by their keys, ${again.kept} are new`;
  say(`  The sender cannot know what was kept, and sends everything again, with ${LATER} more of each order: ${known}.`);
  const all = ORDERS.length * (STEPS + LATER);
  await until(() => new Set(outside.heard.map(({ id }) => id)).size >= all, "the warehouse has heard of all changes");
  await until(async () => (await Promise.all(ORDERS.map((order) => api.look("orders", order)))).every(isEmpty), "the lanes are empty");

  const wrong = [
    ...(again.known === kept ? [] : [`${again.known} of ${kept} changes were known when they were sent again.`]),
    ...outOfOrder(outside.heard, ORDERS, STEPS + LATER),
  ];
  if (wrong.length > 0) throw new Refusal(wrong.slice(0, COMPLAINTS).join(" "));
  say(paint("dim", "\n  What the warehouse heard, in its order:"));
  for (const order of ORDERS.slice(0, SHOWN)) say(`  ${paint("cyan", column(order, 10))} ${inWords(stepsOf(outside.heard, order))}`);
  const twice = outside.heard.length - all;
  say(
    `  ${paint("green", "✓")} ${all} of ${all} changes arrived, of all ${ORDERS.length} orders in the order in which they were sent; ${twice} arrived twice.`,
  );
  say(paint("dim", "    Twice: what the killed process had been handed and could not say was done. At least once, and nothing overtakes."));
}

function changesOf(steps: number): Change[] {
  return ORDERS.flatMap((order) => Array.from({ length: steps }, (_, at) => ({ order, step: at + 1 })));
}

const isEmpty = ({ state }: { state: string }) => state === "empty";

/** The steps of an order, as the warehouse heard them. */
function stepsOf(heard: readonly Heard[], order: string): number[] {
  return heard.filter((one) => one.order === order).map(({ step }) => step);
}

/** Steps that followed each other without a gap. */
type Stretch = readonly [from: number, to: number];

function stretchesOf(steps: readonly number[]): Stretch[] {
  const stretches: Stretch[] = [];
  for (const step of steps) {
    const last = stretches.at(-1);
    if (last?.[1] === step - 1) stretches[stretches.length - 1] = [last[0], step];
    else stretches.push([step, step]);
  }
  return stretches;
}

function inWords(steps: readonly number[]): string {
  const words = stretchesOf(steps).map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
  return words.join(paint("red", "  kill -9  "));
}

/**
 * What is not as a lane promises after one kill, each order as a sentence: all steps in one stretch, or in two, of which the second begins
 * again with what was under way.
 */
export function outOfOrder(heard: readonly Heard[], orders: readonly string[], last: number): string[] {
  return orders.flatMap((order) => {
    const steps = stepsOf(heard, order);
    const [first, second, ...more] = stretchesOf(steps);
    const reached = first?.[0] === 1 ? first[1] : 0;
    const isWhole = second === undefined && reached === last;
    const goesOn = second !== undefined && second[0] <= reached && second[0] > reached - BATCH && second[1] === last;
    return more.length === 0 && (isWhole || goesOn) ? [] : [`Of ${order} the warehouse heard ${steps.join(" ")}.`];
  });
}
