import * as z from "zod";
import { laneIn } from "../../contract/queue.ts";
import { CLAIMED } from "../../store/inbox/classes.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import { OPERATIONS_PER_MESSAGE, OPERATIONS_PER_RETRY, PRICES, type Priced } from "./formula.ts";
import { READ, ROWS, type Spent } from "./spending.ts";
import type { StoredUse } from "./stored.ts";

/** The used quantity of a priced item, and the cost of that quantity at list prices, as if the plan's quotas were used up. */
const CostPart = z
  .object({
    amount: z.number(),
    mark: z.enum(["counted", "estimated"]).meta({
      description:
        "`counted`: recorded by the database and at the end of the run. `estimated`: part of it is not recorded or is shared with other runs.",
    }),
    usd: z.number(),
  })
  .meta({ id: "CostPart" });
type CostPart = z.infer<typeof CostPart>;

const Parts = z.object({
  steps: CostPart.meta({ description: "Billed steps, sleeps and waits. Retries of a step are not billed." }),
  rows_written: CostPart.meta({ description: "Rows of the database including index rows and rows of the app." }),
  rows_read: CostPart,
  queue_operations: CostPart.meta({ description: "Three operations for each message of up to 64 KB." }),
  requests: CostPart.meta({ description: "The HTTP request, queue batches and Workflow instances." }),
  object_requests: CostPart.meta({ description: "Calls to the recorder and to the lane object." }),
  log_lines: CostPart,
} satisfies Partial<Record<Priced, typeof CostPart>>);

/** The parts of an instance's cost. */
export const COST_PARTS = Object.keys(Parts.shape) as (keyof typeof Parts.shape)[];

/** An instance's cost so far. */
export const Cost = z
  .object({
    usd: z
      .number()
      .meta({ description: "The cost by list prices, beyond the included usage of the plan. CPU time and storage are not included." }),
    usd_counted: z.number().meta({ description: "The part of the cost that is counted, not estimated." }),
    messages: z.int().meta({ description: "Messages that the instance sent, and its own if it came from outside." }),
    removal_rows: z
      .int()
      .meta({ description: "Rows that the removal of the instance will write. The other fields do not include these rows." }),
    parts: Parts,
  })
  .meta({ id: "Cost" });
export type Cost = z.infer<typeof Cost>;

/** Number of calls of Durable Objects for a message in a lane: send, delivery and settlement. */
const LANE_CALLS = 3;
/** Number of billed steps of a wait or an approval. */
const STEPS_OF_WAIT = 2;

/** The cost of an instance, from its stored records. */
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
  const again = Math.max(0, queued - 1);
  const claims = use.classes.reduce((sum, { class: its, epochs }) => sum + (CLAIMED.has(its) ? epochs : 0), 0);
  const started = Math.max(1, runs.length);
  const mark = (counted: boolean): CostPart["mark"] => (counted ? "counted" : "estimated");
  const sure = once && runs.every(({ unsure }) => unsure !== 1);
  const parts: Record<keyof Cost["parts"], readonly [amount: number, mark: CostPart["mark"]]> = {
    steps: [steps, mark(once)],
    rows_written: [rowsOf(use, runs), mark(sure && isTidy && failed === 0)],
    rows_read: [READ.run + READ.step * all.entries + READ.deliveredAgain * again, "estimated"],
    queue_operations: [OPERATIONS_PER_MESSAGE * (queued - again + all.portions) + OPERATIONS_PER_RETRY * again, mark(use.deliveries <= 1)],
    requests: [(use.emitted || use.queue === null ? 0 : 1) + queued + all.messages + started, "estimated"],
    object_requests: [all.done + claims + started + (all.inline > 0 ? 1 : 0) + (inLane ? LANE_CALLS : 0), "estimated"],
    // The engine writes one log line for each delivery, each attempt at a step, and each end of a run.
    log_lines: [queued + all.messages + steps + all.inline + started, "estimated"],
  };
  const priced = Object.fromEntries(
    COST_PARTS.map((part) => [part, { amount: parts[part][0], mark: parts[part][1], usd: parts[part][0] * PRICES[part].usd }]),
  ) as Cost["parts"];
  const usd = (of: readonly CostPart[]) => of.reduce((sum, one) => sum + one.usd, 0);
  return {
    usd: usd(Object.values(priced)),
    usd_counted: usd(Object.values(priced).filter((part) => part.mark === "counted")),
    messages: queued - again + all.messages,
    removal_rows: ROWS.removed + ROWS.tag * use.tags + all.entries + use.waits.asked + use.questions.asked,
    parts: priced,
  };
}

/**
 * The number of billed steps: the steps of the longest replay, the failed steps of each run once more, and the steps of an undo. Before the
 * first run ends, only steps that wrote a record are counted.
 */
function stepsOf({ spent, run, classes, waits, questions }: StoredUse, runs: readonly Spent[]): { steps: number; failed: number } {
  const doing = runs.filter(({ undo }) => undo !== 1);
  const seen = classes.reduce((sum, { entries, inline }) => sum + entries - inline, 0) + STEPS_OF_WAIT * (waits.asked + questions.asked);
  const ended = doing.reduce((most, { steps }) => Math.max(most, steps), 0);
  const failed = doing.reduce((sum, one) => sum + (one.failed ?? 0), 0) - (spent?.[run]?.failed ?? 0);
  const undoing = runs.reduce((sum, one) => sum + (one.undo === 1 ? one.steps : 0), 0);
  return { steps: (doing.length === 0 ? seen : Math.max(ended, seen - undoing)) + failed + undoing, failed };
}

/** Number of rows that the engine wrote for its records, plus the app's rows, which are counted at the end of each run. */
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
    ROWS.tag * use.tags +
    (use.isDelayed ? ROWS.delayed : 0) +
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

/** Number of status changes of the instance's row, from its acceptance until its end. */
function changesOf({ deliveries, classes, waits, questions }: StoredUse, runs: number): number {
  const began = classes.length > 0 ? 1 : 0;
  const slept = 2 * (waits.taken - waits.early + waits.over) + (waits.asked - waits.taken - waits.over);
  return Math.max(1, deliveries) + began + slept + questions.asked + questions.answered + questions.over + Math.max(0, runs - 1);
}

/**
 * The rows that the inbox entries of one class cost. An attempt without a claim is written once, with its outcome. An attempt with a claim
 * is written before and after its effect.
 */
function entryRows({ class: its, done, inDoubt, epochs, entries }: StoredUse["classes"][number]): number {
  const doubts = inDoubt * (ROWS.inDoubt - ROWS.givenUp);
  if (!CLAIMED.has(its)) return ROWS.recorded * epochs + doubts;
  const givenUp = epochs - entries + (entries - done);
  return ROWS.claimed * epochs + ROWS.givenUp * givenUp + ROWS.recorded * done + doubts;
}

/** The rows that the ends of the runs cost. The last run costs rows only if its instance has ended. */
function endRows({ status, spent, run }: StoredUse): number {
  const before = Object.entries(spent ?? {}).filter(([number]) => Number(number) !== run);
  const rows = before.reduce((sum, [, { failed, undo }]) => sum + ROWS[undo ? "terminated" : failed ? "errored" : "complete"], 0);
  return rows + (isEnd(status) ? ROWS[status] : 0);
}

function isEnd(status: InstanceStatus): status is "complete" | "errored" | "terminated" {
  return status === "complete" || status === "errored" || status === "terminated";
}

function sumOf({ classes }: StoredUse) {
  const sum = (field: "entries" | "done" | "inDoubt" | "inline" | "messages" | "portions") =>
    classes.reduce((total, one) => total + one[field], 0);
  return {
    entries: sum("entries"),
    done: sum("done"),
    inDoubt: sum("inDoubt"),
    inline: sum("inline"),
    messages: sum("messages"),
    portions: sum("portions"),
  };
}
