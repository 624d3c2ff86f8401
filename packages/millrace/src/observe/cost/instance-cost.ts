import { laneIn } from "../../contract/queue.ts";
import { CLAIMED } from "../../store/inbox/classes.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import { OPERATIONS_PER_MESSAGE } from "./formula.ts";
import { PRICES, type Priced } from "./prices.ts";
import type { Spent } from "./spending.ts";
import type { StoredUse } from "./stored.ts";
import { READ, ROWS } from "./written-rows.ts";

/**
 * `counted`: as the database and the run's own end have it. `estimated`: something of it is not kept, or is shared with others, and the
 * number is what that usually is.
 */
export type Mark = "counted" | "estimated";

/** How much of one thing was used, and its list price beyond what the plan includes. */
export interface CostPart {
  readonly amount: number;
  readonly mark: Mark;
  readonly usd: number;
}

/** What is told of the cost of an instance. */
export const COST_PARTS = [
  "steps",
  "rowsWritten",
  "rowsRead",
  "queueOperations",
  "requests",
  "objectRequests",
  "logLines",
] as const satisfies readonly Priced[];

/** What an instance has cost so far. Without what its steps compute (CPU time), what is stored, and what removes it one day. */
export interface Cost {
  /** Dollars. */
  readonly usd: number;
  /** Of these, what is counted and not estimated. */
  readonly usdCounted: number;
  /** Messages that it sent, and its own where it came from outside. */
  readonly messages: number;
  /** Rows that its removal will write one day, and that are in none of these numbers: a row removed is a row written. */
  readonly removalRows: number;
  readonly parts: Readonly<Record<(typeof COST_PARTS)[number], CostPart>>;
}

/** Calls of a message in a lane: it is left there, handed out, and settled. */
const LANE_CALLS = 3;
/** What the engine itself writes for a step that is not known: an entry. */
const STEPS_OF_WAIT = 2;

/** What an instance has cost, by what is kept of it. */
export function instanceCost(use: StoredUse): Cost {
  const runs = Object.values(use.spent ?? {});
  const known = use.spent !== null && isEnd(use.status) && use.spent[use.run] !== undefined;
  const once = known && use.run === 1;
  const { steps, failed } = stepsOf(use, runs);
  const all = sumOf(use);
  const isTidy = all.inDoubt === 0 && use.classes.every(({ entries, epochs }) => epochs === entries);
  const inLane = use.queue !== null && laneIn(use.queue) !== undefined;
  const own = use.queue === null || use.emitted ? 0 : use.deliveries;
  const queued = inLane ? 0 : own;
  const claims = use.classes.reduce((sum, { class: its, epochs }) => sum + (CLAIMED.has(its) ? epochs : 0), 0);
  const started = Math.max(1, runs.length);
  const mark = (counted: boolean): Mark => (counted ? "counted" : "estimated");
  const sure = once && runs.every(({ unsure }) => unsure !== 1);
  const parts: Record<(typeof COST_PARTS)[number], readonly [amount: number, mark: Mark]> = {
    steps: [steps, mark(once)],
    rowsWritten: [rowsOf(use, runs), mark(sure && isTidy && failed === 0)],
    rowsRead: [READ.run + READ.step * all.entries, "estimated"],
    queueOperations: [OPERATIONS_PER_MESSAGE * (queued + all.portions), mark(use.deliveries <= 1)],
    requests: [(use.emitted || use.queue === null ? 0 : 1) + queued + all.messages + started, "estimated"],
    objectRequests: [all.done + claims + started + (all.lean > 0 ? 1 : 0) + (inLane ? LANE_CALLS : 0), "estimated"],
    // One for each delivery, each attempt at a step, and each end.
    logLines: [queued + all.messages + steps + all.lean + started, "estimated"],
  };
  const priced = Object.fromEntries(
    COST_PARTS.map((part) => [part, { amount: parts[part][0], mark: parts[part][1], usd: parts[part][0] * PRICES[part].usd }]),
  ) as Cost["parts"];
  const usd = (of: readonly CostPart[]) => of.reduce((sum, one) => sum + one.usd, 0);
  return {
    usd: usd(Object.values(priced)),
    usdCounted: usd(Object.values(priced).filter((part) => part.mark === "counted")),
    messages: queued + all.messages,
    removalRows: ROWS.removed + all.entries + use.waits.asked + use.questions.asked,
    parts: priced,
  };
}

/**
 * Steps as they are billed: the longest pass came by all of them, a step that had failed was billed in its own run as well, and an undo is
 * an instance of its own. Before the first end only what has written is known. What a pass took itself is none.
 */
function stepsOf({ spent, run, classes, waits, questions }: StoredUse, runs: readonly Spent[]): { steps: number; failed: number } {
  const doing = runs.filter(({ undo }) => undo !== 1);
  const seen = classes.reduce((sum, { entries, lean }) => sum + entries - lean, 0) + STEPS_OF_WAIT * (waits.asked + questions.asked);
  const ended = doing.reduce((most, { steps }) => Math.max(most, steps), 0);
  const failed = doing.reduce((sum, one) => sum + (one.failed ?? 0), 0) - (spent?.[run]?.failed ?? 0);
  const undoing = runs.reduce((sum, one) => sum + (one.undo === 1 ? one.steps : 0), 0);
  return { steps: (doing.length === 0 ? seen : Math.max(ended, seen - undoing)) + failed + undoing, failed };
}

/** Rows written by the engine for what is kept, and by the app as the ends counted them. */
function rowsOf(use: StoredUse, runs: readonly Spent[]): number {
  const { waits, questions, classes } = use;
  const doing = runs.filter(({ undo }) => undo !== 1);
  const undoing = runs.filter(({ undo }) => undo === 1);
  const appRows = Math.max(0, ...doing.map(({ rows = 0 }) => rows)) + undoing.reduce((sum, { rows = 0 }) => sum + rows, 0);
  const { entries, messages } = sumOf(use);
  const slept = waits.taken - waits.early;
  const open = waits.asked - waits.taken - waits.over;
  return (
    ROWS.accepted +
    (use.payloadByReference ? ROWS.payloadByReference : 0) +
    (use.hasDeadline ? ROWS.deadline * changesOf(use, doing.length) : 0) +
    (use.calls ? ROWS.called * runs.length : 0) +
    ROWS.deliveredAgain * Math.max(0, use.deliveries - 1) +
    (entries > 0 ? ROWS.running : 0) +
    classes.reduce((sum, one) => sum + entryRows(one), 0) +
    ROWS.message * messages +
    ROWS.waitAsked * waits.asked +
    ROWS.signal * waits.taken +
    ROWS.waitSlept * slept +
    ROWS.waitOver * waits.over +
    ROWS.waiting * open +
    ROWS.questionAsked * questions.asked +
    ROWS.questionAnswered * questions.answered +
    ROWS.questionOver * questions.over +
    Math.max(0, doing.length - 1) * ROWS.retried +
    undoing.length * ROWS.undone +
    endRows(use) +
    appRows
  );
}

/** How often the row of an instance said another status, from its acceptance on, before it was over. */
function changesOf({ deliveries, classes, waits, questions }: StoredUse, runs: number): number {
  const began = classes.length > 0 ? 1 : 0;
  const slept = 2 * (waits.taken - waits.early + waits.over) + (waits.asked - waits.taken - waits.over);
  return Math.max(1, deliveries) + began + slept + questions.asked + questions.answered + questions.over + Math.max(0, runs - 1);
}

/** What an attempt without a claim writes, it writes with its outcome; each that claims, once before its effect and once behind it. */
function entryRows({ class: its, done, inDoubt, epochs, entries }: StoredUse["classes"][number]): number {
  const doubts = inDoubt * (ROWS.inDoubt - ROWS.givenUp);
  if (!CLAIMED.has(its)) return ROWS.recorded * epochs + doubts;
  const givenUp = epochs - entries + (entries - done);
  return ROWS.claimed * epochs + ROWS.givenUp * givenUp + ROWS.recorded * done + doubts;
}

/** The ends of the runs: of all but the last, a retry followed a failure. */
function endRows({ status, spent, run }: StoredUse): number {
  const before = Object.entries(spent ?? {}).filter(([number]) => Number(number) !== run);
  const rows = before.reduce((sum, [, { failed, undo }]) => sum + ROWS[undo ? "terminated" : failed ? "errored" : "complete"], 0);
  return rows + (isEnd(status) ? ROWS[status] : 0);
}

function isEnd(status: InstanceStatus): status is "complete" | "errored" | "terminated" {
  return status === "complete" || status === "errored" || status === "terminated";
}

function sumOf({ classes }: StoredUse) {
  const sum = (field: "entries" | "done" | "inDoubt" | "lean" | "messages" | "portions") =>
    classes.reduce((total, one) => total + one[field], 0);
  return {
    entries: sum("entries"),
    done: sum("done"),
    inDoubt: sum("inDoubt"),
    lean: sum("lean"),
    messages: sum("messages"),
    portions: sum("portions"),
  };
}
