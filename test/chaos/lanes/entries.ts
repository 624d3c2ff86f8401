import type { OnFailure } from "../../../packages/millrace/src/lanes/definition.ts";

/** The tested lanes: one per policy, all with these retries and this batch size. */
export const LANES = { blocking: "block", parking: "park", holding: "hold" } as const satisfies Record<string, OnFailure>;
export type LaneName = keyof typeof LANES;
export const RETRIES = { limit: 2, initial: 20, max: 100 } as const;
export const BATCH_SIZE = 10;
/** The failures of a message that never succeeds. */
export const ALWAYS = 1_000_000;

/** A message: the n-th of its key, which fails this number of times before it succeeds. */
export interface Body {
  key: string;
  n: number;
  fails: number;
}

/** One message of one lane and key. */
interface Of {
  lane: LaneName;
  key: string;
  n: number;
}

/** A lane's response to its sender. */
export interface Accepted extends Of {
  is: "accepted";
  id: string;
  duplicate: boolean;
}

/** A message that its handler is processing, in a process (`life`), and in one call there. */
export interface Told extends Body {
  lane: LaneName;
  life: string;
  call: string;
  id: string;
  attempts: number;
}

/** A completed delivery, as recorded in the ledger. */
export interface Delivery extends Told {
  is: "delivery";
  /** The number of failed attempts of a message. */
  did: "done" | "refused";
  /** True when another delivery of the same key and life was still running: two concurrent calls of the handler. */
  beside: boolean;
}

/** A dead letter that is leaving its lane. */
export interface ToldLetter extends Of {
  life: string;
  id: string;
  reason: "exhausted" | "skipped";
}

/** A dead letter that was accepted, or refused, so that it must be sent again. */
export interface Letter extends ToldLetter {
  is: "letter";
  taken: boolean;
}

/** An operator's next action on a blocked lane. */
export interface Freed extends Of {
  is: "freed";
  how: "resume" | "retry" | "skip";
}

/** An instance behind a lane was requested, has started, or has ended. */
export interface Turn {
  is: "turn";
  key: string;
  n: number;
  at: "asked" | "begins" | "ends";
}

/** A line of the ledger, in order. */
export type Entry = Accepted | Delivery | Letter | Freed | Turn | { is: "kill"; what: string };
