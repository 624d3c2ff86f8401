import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { column, paint, say, seconds } from "../terminal.ts";
import { leanApi, MODES, type Mode, type Run } from "./lean/api.ts";
import { KINDS, type Outside, startOutside } from "./lean/outside.ts";
import { showTable, type Went } from "./lean/table.ts";
import { chapter, type Stage, type Story } from "./story.ts";
import { untilWith } from "./until.ts";

const ORDERS = 12;
const ordersFrom = (first: number, count = ORDERS) => Array.from({ length: count }, (_, at) => `order-${first + at}`);
const WELL = ordersFrom(1);
const KILLED = ordersFrom(1 + ORDERS);
/** Before anything is measured. */
const WARM = ordersFrom(1 + 2 * ORDERS, 6);
/** So many calls have come outside when the kill comes. */
const KILL_AT = 18;
/** An answer from outside takes so long; while somebody means to kill what waits for it, longer. */
const ANSWER_MS = { well: 20, slow: 250 };
/** An engine that is younger than clocks may differ takes no pass for the first one: the first step of each run is the platform's then. */
const GROWN_MS = 1200;
const BACK_MS = 60_000;

export const lean: Story = {
  title: "one chain in both modes: the steps that are billed, what they cost, their time, and a kill in the middle of each",
  config: join(import.meta.dirname, "lean/wrangler.jsonc"),
  async open() {
    const outside = await startOutside();
    return { vars: { OUTSIDE_URL: outside.url }, tell: (stage) => tell(stage, outside), stop: outside.stop };
  },
};

async function tell(stage: Stage, outside: Outside): Promise<void> {
  const beganAt = Date.now();
  const about = [
    "An order is shipped by three effects and a commit: stock is reserved, a courier is booked, a mail is sent. Its workflow is there twice,",
    'the same code: with steps: "platform", where each is a step of the platform\'s, and with steps: "lean", where the pass makes the first',
    "attempt itself. Warehouse, courier and mails are outside of the engine, and count what they are asked for by its key.",
  ];
  for (const line of about) say(paint("dim", `  ${line}`));
  await warmUp(stage, outside);

  chapter(1, `${ORDERS} orders in each mode. Nothing fails.`);
  const well = await inBoth((mode) => allGoesWell(stage, outside, mode));

  chapter(2, `${ORDERS} more in each, and kill -9 of the runtime in the middle.`);
  outside.takes(ANSWER_MS.slow);
  const killed = await inBoth(
    (mode) => throughKill(stage, outside, mode),
    () => grown(stage),
  );

  chapter(3, "Side by side, as the engine's API and those outside say");
  showTable({ orders: WELL, ...well }, { orders: KILLED, ...killed });
  const proof = "Both modes did each thing once, through a kill too";
  say(`\n${paint("green", "✓")} ${paint("bold", `${proof}, in ${seconds(Date.now() - beganAt)}.`)}`);
}

/** One mode after the other, so that neither waits for the other's work. */
async function inBoth(go: (mode: Mode) => Promise<Went>, between?: () => Promise<void>): Promise<Record<Mode, Went>> {
  const platform = await go("platform");
  await between?.();
  return { platform, lean: await go("lean") };
}

/** Has some orders shipped that nobody measures: the first runs of a process are slow, whatever their mode. */
async function warmUp(stage: Stage, outside: Outside): Promise<void> {
  outside.takes(ANSWER_MS.well);
  await Promise.all(MODES.map((mode) => shipped(stage, mode, "warm", WARM)));
  await grown(stage);
}

const grown = ({ stop }: Stage) => sleep(GROWN_MS, undefined, { signal: stop });

async function allGoesWell(stage: Stage, outside: Outside, mode: Mode): Promise<Went> {
  outside.calls.length = 0;
  const runs = await shipped(stage, mode, "well", WELL);
  say(`  ${column(mode, 10)}${runs.length} orders are shipped.`);
  return { runs, calls: [...outside.calls] };
}

async function throughKill(stage: Stage, outside: Outside, mode: Mode): Promise<Went> {
  const { engine } = stage;
  const until = untilWith(stage.stop);
  const { calls } = outside;
  calls.length = 0;
  await leanApi(engine).ship(mode, jobOf(mode, "killed"), KILLED);
  await until(() => calls.length >= KILL_AT && new Set(calls.map(({ order }) => order)).size === KILLED.length, "every order is under way");
  const killed = await engine.kill9("runtime");
  const killedAt = Date.now();
  // What was on its way is heard before it is counted.
  await sleep(50);
  const before = calls.length;
  if (killed.length === 0) throw new Refusal("There was no process to kill.");
  if (before >= KILLED.length * KINDS.length) throw new Refusal("The kill came too late: everything had been asked for before it.");
  say(`  ${column(mode, 10)}${paint("red", `kill -9 of process ${killed.join(", ")}`)}, when ${before} calls had come outside`);
  if (!(await engine.answers(BACK_MS))) throw new Refusal(`The runtime did not come back within ${seconds(BACK_MS)}.`);
  await leanApi(engine).wake(mode, jobOf(mode, "killed"));
  const runs = await ended(stage, mode, "killed", KILLED);
  say(`  ${column("", 10)}back, and done ${seconds(Date.now() - killedAt)} later`);
  return { runs, calls: [...calls] };
}

/** Has orders shipped. Answers their runs once all are complete. */
async function shipped(stage: Stage, mode: Mode, what: string, orders: readonly string[]): Promise<Run[]> {
  await leanApi(stage.engine).ship(mode, jobOf(mode, what), orders);
  return ended(stage, mode, what, orders);
}

async function ended({ engine, stop }: Stage, mode: Mode, what: string, { length }: readonly string[]): Promise<Run[]> {
  const api = leanApi(engine);
  const job = jobOf(mode, what);
  const isOver = ({ status }: { status: string }) => status === "complete" || status === "errored";
  await untilWith(stop)(async () => {
    const runs = await api.page(job);
    return runs.length === length && runs.every(isOver);
  }, `the orders of “${job}” are shipped`);
  return api.runs(job);
}

const jobOf = (mode: Mode, what: string) => `${mode}-${what}`;
