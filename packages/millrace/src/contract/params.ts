import type { Envelope } from "./envelope.ts";

/**
 * The parameters of an instance on the platform, which every replay gets: the message, and fields that only the engine sets. No message can
 * have the engine's fields, because envelopes with unknown fields are refused.
 */
export type Params = Envelope & {
  /**
   * The time of the first creation, in milliseconds. Missing if an earlier creation of the instance may have succeeded. Without this time,
   * the instance's replays check recorded results first.
   */
  created_ms?: number;
  /** The instance whose effects this instance undoes. */
  undoes?: string;
  /** The workflow to run, for a class that runs several workflows. */
  workflow?: string;
  /** The version of the workflow to which the instance is bound from its start. Missing for version 1. */
  version?: number;
  /** The cell of the instance. Missing for the first cell. */
  cell?: number;
};

/** The parts of the parameters. The envelope is not validated yet. */
export function openParams({ created_ms, undoes, workflow: _workflow, cell: _cell, version = 1, ...envelope }: Params): {
  envelope: unknown;
  version: number;
  createdAt?: Date;
  undoes?: string;
} {
  return {
    envelope,
    version,
    ...(created_ms !== undefined && { createdAt: new Date(created_ms) }),
    ...(undoes !== undefined && { undoes }),
  };
}
