import { type InstanceStatus, RETRYABLE } from "../store/instances/status.ts";

/** What follows from each answer to a doubt, in a sentence. */
export interface Answers {
  /** It happened, with this output. */
  readonly confirm: string;
  /** It did not happen. */
  readonly reject: string;
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
}

const TAKES = "The step takes what it answered, which you say";
const RETURNS = "An output that the step cannot use brings it back in doubt.";
const TWICE = "it may happen twice. The audit says that you knew.";

/** What the engine does with each answer to a doubt, as its instance stands. */
export function answersTo({ status, undo, takesBack, undoable, runsNoMore }: Doubted): Answers {
  const goesOn = takesBack ? "the undo goes on" : "the run goes on behind it";
  if (undo !== null && !takesBack) return inUndo(undoable, status);
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
      confirm: `Nothing runs now: ${later} goes on with what it answered, which you say. ${RETURNS}`,
      reject: `Nothing is sent now: ${later} sends it, under the same key.`,
      retry: `Nothing is sent now: ${later} sends it, under a new key, and ${TWICE}`,
    };
  }
  return {
    confirm: `${TAKES}, and ${goesOn}. Nothing is sent. ${RETURNS}`,
    reject: "It is sent now, under the same key.",
    retry: `It is sent now, under a new key: ${TWICE}`,
  };
}

/** An undo does nothing that did not happen: it asks only what there is to take back. */
function inUndo(undoable: boolean, status: InstanceStatus): Answers {
  const back = undoable ? "is taken back" : "stays, because its code has no way to take it back";
  const then = status === "errored" ? "a retry of the undo goes on" : status === "terminated" ? "the undo is over" : "the undo goes on";
  return {
    confirm: `${TAKES}, and the effect ${back}: ${then}. ${RETURNS}`,
    reject: `Nothing is sent, and there is nothing to take back: ${then}.`,
    retry: null,
  };
}
