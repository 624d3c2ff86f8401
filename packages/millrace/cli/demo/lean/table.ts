import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import { MODES, type Mode, type Run } from "./api.ts";
import { bookingOf, type Called, KINDS } from "./outside.ts";

/** Orders that went through a mode: what the engine says of their runs, and what those outside were asked for. */
export interface Went {
  runs: readonly Run[];
  calls: readonly Called[];
}

/** The same orders in both modes. */
type Round = Record<Mode, Went> & { orders: readonly string[] };

/** What is said of orders, mode by mode. */
type Row = readonly [what: string, of: (went: Went) => string];

const BILL: readonly Row[] = [
  ["steps that the platform bills", ({ runs }) => `${stepsOf(runs)}`],
  ["a million such runs, by the price list", ({ runs }) => `$${((sum(runs.map(({ cost }) => cost.usd)) / runs.length) * 1e6).toFixed(2)}`],
];
const WELL: readonly Row[] = [...BILL, ["from asked to done, the median", ({ runs }) => `${medianMs(runs)} ms`]];
const KILLED: readonly Row[] = [
  ...BILL,
  ["calls that those outside had", ({ calls }) => `${calls.length}`],
  ["effects, counted by key", ({ calls }) => `${new Set(calls.map(({ key }) => key)).size}`],
  ["effects that happened twice", ({ calls }) => `${twice(calls).length}`],
];

const NOTES = [
  "A call that came again after a kill came under the key of the first, and was answered with what had been done then. The pass that goes on",
  "behind a kill may not be the first: its first step is the platform's in either mode, and lean steps follow it.",
];

const WIDTH = { what: 42, mode: 14 };

/** Shows both modes side by side. Errors: a `Refusal` where they differ in anything but their price and their time. */
export function showTable(well: Round, killed: Round): void {
  const right = (text: string) => text.padStart(WIDTH.mode);
  say(paint("dim", `  ${column("", WIDTH.what)}${right("platform")}${right("lean")}`));
  const part = (title: string, rows: readonly Row[], went: Round) => {
    say(`  ${paint("bold", `${went.orders.length} orders, ${title}`)}`);
    for (const [what, of] of rows) say(`  ${column(`  ${what}`, WIDTH.what)}${MODES.map((mode) => right(of(went[mode]))).join("")}`);
  };
  part("nothing fails", WELL, well);
  part("kill -9 in the middle", KILLED, killed);
  for (const note of NOTES) say(paint("dim", `  ${note}`));
  const wrong = [well, killed].flatMap((went) =>
    MODES.flatMap((mode) => differences(went.orders, went[mode]).map((said) => `${mode}: ${said}`)),
  );
  if (stepsOf(well.lean.runs) >= stepsOf(well.platform.runs)) wrong.push("The lean mode has saved no step.");
  if (wrong.length > 0) throw new Refusal(wrong.slice(0, COMPLAINTS).join(" "));
}

/** As many complaints are said, where something is wrong. */
const COMPLAINTS = 3;

/** What is not as it was to be done, once for each order: each as a sentence. */
export function differences(orders: readonly string[], { runs, calls }: Went): string[] {
  const done = Map.groupBy(calls, ({ kind, order }) => `${kind} of ${order}`);
  const wanted = orders.flatMap((order) => KINDS.map((kind) => `${kind} of ${order}`));
  const keys = (what: string) => new Set(done.get(what)?.map(({ key }) => key));
  return [
    ...[...new Set([...wanted, ...done.keys()])].flatMap((what) => {
      const [times, wants] = [keys(what).size, wanted.includes(what) ? 1 : 0];
      return times === wants ? [] : [`There are ${times} ${what} instead of ${wants}.`];
    }),
    ...orders.flatMap((order) => {
      const run = runs.find(({ subject }) => subject === order);
      if (run?.status !== "complete") return [`The run of ${order} is ${run?.status ?? "nowhere"}.`];
      const [booked] = [...keys(`bookings of ${order}`)].map(bookingOf);
      return run.result === booked ? [] : [`The run of ${order} answered ${run.result}, and the courier has ${booked}.`];
    }),
  ];
}

/** What was done twice for an order: it came under more than one key. */
function twice(calls: readonly Called[]): string[] {
  const keys = Map.groupBy(calls, ({ kind, order }) => `${kind} of ${order}`);
  return [...keys].flatMap(([what, of]) => (new Set(of.map(({ key }) => key)).size > 1 ? [what] : []));
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
const stepsOf = (runs: readonly Run[]) => sum(runs.map(({ cost }) => cost.parts.steps.amount));

function medianMs(runs: readonly Run[]): number {
  const took = runs.map(({ accepted_at, updated_at }) => Date.parse(updated_at) - Date.parse(accepted_at)).sort((a, b) => a - b);
  return took[Math.floor(took.length / 2)] ?? 0;
}
