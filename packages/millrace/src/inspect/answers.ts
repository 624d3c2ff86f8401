import * as z from "zod";
import { fragment } from "../contract/sql.ts";
import { nobodyRuns } from "../store/inbox/doubts.ts";
import { type InstanceStatus, RETRYABLE } from "../store/instances/status.ts";

export const Answers = z
  .object({
    confirm: z.string(),
    reject: z.string().nullable().describe("The consequence of a rejection. Null if the effect is known to have happened."),
    retry: z.string().nullable().describe("The consequence of a retry. Null if the effect would not run again."),
  })
  .meta({ id: "Follows", description: "The consequence of each decision in the current state of the instance." });
type Answers = z.infer<typeof Answers>;

/** The columns of `Doubted`, of the inbox entry `e` and its instance `i`. */
export const DOUBTED_COLUMNS = fragment(`i.status, i.undo AS undone_by, e.position < 0 AS takes_back, e.undoable,
  ${nobodyRuns("e.position").fragment} AS runs_no_more, e.error->>'answered' IS NOT NULL AS happened`);

export interface Doubted {
  readonly status: InstanceStatus;
  /** The action id of the instance's undo; null without one. */
  readonly undone_by: string | null;
  /** 1 if the step belongs to an undo. */
  readonly takes_back: number;
  /** 1 if the effect has an `undo`. */
  readonly undoable: number;
  /** 1 if no run would execute the effect again. */
  readonly runs_no_more: number;
  /** 1 if the effect happened, but the database refused its rows. */
  readonly happened: number;
}

const TAKES = "The step gets the output that you enter";
const RETURNS = "If the step cannot use the output, its outcome is unknown again (in doubt).";
const TWICE = "it may happen twice. The audit records that you accepted this.";
const A_SECOND_TIME = "it happened, so this is a second time. The audit records that you accepted this.";

const REFUSED = "If its rows are refused again, it is in doubt again: deploy code with valid rows first";

export function answersTo(doubted: Doubted): Answers {
  const answers = answersOf(doubted);
  return doubted.happened === 1 ? { ...answers, reject: null } : answers;
}

function answersOf({ status, undone_by: undo, undoable, runs_no_more, ...doubted }: Doubted): Answers {
  const [takesBack, hasHappened] = [doubted.takes_back === 1, doubted.happened === 1];
  const goesOn = takesBack ? "the undo continues" : "the run continues";
  if (undo !== null && !takesBack) return inUndo(undoable === 1, status, hasHappened ? `${REFUSED}.` : RETURNS);
  const returns = hasHappened ? `${REFUSED}, or cancel the instance with undo: false.` : RETURNS;
  const twice = hasHappened ? A_SECOND_TIME : TWICE;
  if (runs_no_more === 1) {
    return {
      confirm: "Recorded: it happened, with this output. The instance does not continue.",
      reject: "Recorded: it did not happen. Nothing is sent, and the instance does not continue.",
      retry: null,
    };
  }
  const later = RETRYABLE.has(status) ? "a retry" : status === "paused" ? "a resume" : null;
  if (later !== null) {
    return {
      confirm: `Nothing runs now: ${later} continues with the output that you enter. ${returns}`,
      reject: `Nothing is sent now: ${later} sends it, under the same key.`,
      retry: `Nothing is sent now: ${later} sends it, under a new key, and ${twice}`,
    };
  }
  return {
    confirm: `${TAKES}, and ${goesOn}. Nothing is sent. ${returns}`,
    reject: "It is sent now, under the same key.",
    retry: `It is sent now, under a new key: ${twice}`,
  };
}

/** The consequences while an undo runs. An undo never executes a rejected effect, which needs no undo. */
function inUndo(undoable: boolean, status: InstanceStatus, returns: string): Answers {
  const back = undoable ? "is undone" : "remains, because it has no undo handler";
  const then = status === "errored" ? "a retry continues the undo" : status === "terminated" ? "the undo has ended" : "the undo continues";
  return {
    confirm: `${TAKES}, and the effect ${back}: ${then}. ${returns}`,
    reject: `Nothing is sent, and there is nothing to undo: ${then}.`,
    retry: null,
  };
}
