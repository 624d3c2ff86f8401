import type { Envelope } from "./envelope.ts";

/**
 * What the platform is given when it creates an instance, and gives to each of its passes: the message, and what only the engine says
 * beside it. No message carries these: envelopes with fields that are not known are refused.
 */
export type Params = Envelope & {
  /**
   * When it was created for the first time, in milliseconds. Missing when that may not be the first time: then its passes look before they
   * act.
   */
  created_ms?: number;
  /** The instance that is undone by this one. */
  undoes?: string;
  /** The definition that a class for several of them is to run. */
  workflow?: string;
};

/** The parts of what a pass is given. The envelope is not checked yet. */
export function openParams({ created_ms, undoes, workflow: _, ...envelope }: Params): {
  envelope: unknown;
  createdAt?: Date;
  undoes?: string;
} {
  return { envelope, ...(created_ms !== undefined && { createdAt: new Date(created_ms) }), ...(undoes !== undefined && { undoes }) };
}
