import type { EntryKey } from "../../contract/ids.ts";
import { fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { CLAIMED } from "./classes.ts";
import { isEntry } from "./entry.ts";
import { SKIPPED } from "./outcome.ts";

/** An operator's output for a skipped step, in the form in which the refusing replay read it. */
export interface GivenOutput {
  readonly key: EntryKey;
  readonly epoch: number;
  /** The run of the replay that refuses the output. A hanging replay of an earlier run must not refuse a later output. */
  readonly run: number;
}

/**
 * Refuses the output for a skipped step. The step's entry returns to its state before the skip, or is removed if the skip created it.
 * Therefore the known facts about the effect remain, and the step can be retried, undone or skipped again.
 */
export function refuseSkip(given: GivenOutput): Statement[] {
  return [
    sql`DELETE FROM millrace_inbox WHERE ${isGiven(given)} AND skipped_over = '{}'`,
    sql`
      UPDATE millrace_inbox SET state = ${STATE_BEFORE}, token = coalesce(skipped_over->>'token', token || ' and refused'),
        epoch = epoch + 1,
        output = NULL, output_ref = NULL, lease_until = coalesce(skipped_over->>'lease_until', ${now}),
        updated_at = coalesce(skipped_over->>'updated_at', updated_at), skipped_over = NULL
      WHERE ${isGiven(given)}`,
  ];
}

/**
 * An entry of an older release does not contain its state before the skip. Therefore an attempt must query the upstream, or an operator
 * must check the upstream.
 */
const STATE_BEFORE = fragment(`coalesce(skipped_over->>'state', iif(class IN ${CLAIMED.fragment}, 'claimed', 'failed'))`);

const isGiven = ({ key, epoch, run }: GivenOutput) => sql`
  ${isEntry(key)} AND state = 'failed' AND token = ${SKIPPED} AND epoch = ${epoch}
  AND EXISTS (SELECT 1 FROM millrace_instances WHERE millrace_instances.id = ${key.instanceId} AND millrace_instances.run = ${run})`;
