import { type InstanceStatus, RETRYABLE } from "../store/instances/status.ts";

/** What follows from each answer to a doubt, in a sentence. */
export interface Answers {
  /** It happened, with this output. */
  readonly confirm: string;
  /** It did not happen. Null where that is refused, because it is known to have happened. */
  readonly reject: string | null;
  /** Nobody can tell: it is done again. Null where that is refused, because nobody would do it. */
  readonly retry: string | null;
}

/** How the effect of a doubt and its instance stand. */
export interface Doubted {
  readonly status: InstanceStatus;
  /** The undo that works on the instance, or has. */
  readonly undo: string | null;
  /** True for a step by which an undo takes another back. */
  readonly takesBack: boolean;
  /** True where its code can take it back. */
  readonly undoable: boolean;
  /** True where nobody would do it again: see `nobodyRuns`. */
  readonly runsNoMore: boolean;
  /** True where it is known to have happened, and its rows were refused. */
  readonly hasHappened: boolean;
}

const TAKES = "The step takes what it answered, which you say";
const RETURNS = "An output that the step cannot use brings it back in doubt.";
const TWICE = "it may happen twice. The audit says that you knew.";
const A_SECOND_TIME = "it did happen, so this is a second time. The audit says that you knew.";

const REFUSED = "Where its rows are refused again, it comes back: deploy code whose record fits first";

/** What the engine does with each answer to a doubt, as its instance stands. */
export function answersTo(doubted: Doubted): Answers {
  const answers = answersOf(doubted);
  return doubted.hasHappened ? { ...answers, reject: null } : answers;
}

function answersOf({ status, undo, takesBack, undoable, runsNoMore, hasHappened }: Doubted): Answers {
  const goesOn = takesBack ? "the undo goes on" : "the run goes on behind it";
  if (undo !== null && !takesBack) return inUndo(undoable, status, hasHappened ? `${REFUSED}.` : RETURNS);
  const returns = hasHappened ? `${REFUSED}, or cancel the instance with undo: false.` : RETURNS;
  const twice = hasHappened ? A_SECOND_TIME : TWICE;
  if (runsNoMore) {
    return {
      confirm: "That it happened, and what it answered, is on record. Nothing runs of it any more.",
      reject: "That it did not happen is on record. Nothing is sent, and nothing runs of it any more.",
      retry: null,
    };
  }
  const later = RETRYABLE.has(status) ? "a retry" : status === "paused" ? "a resume" : null;
  if (later !== null) {
    return {
      confirm: `Nothing runs now: ${later} goes on with what it answered, which you say. ${returns}`,
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

/** An undo does nothing that did not happen: it asks only what there is to take back. */
function inUndo(undoable: boolean, status: InstanceStatus, returns: string): Answers {
  const back = undoable ? "is taken back" : "stays, because its code has no way to take it back";
  const then = status === "errored" ? "a retry of the undo goes on" : status === "terminated" ? "the undo is over" : "the undo goes on";
  return {
    confirm: `${TAKES}, and the effect ${back}: ${then}. ${returns}`,
    reject: `Nothing is sent, and there is nothing to take back: ${then}.`,
    retry: null,
  };
}
