import type { EntryKey } from "../../contract/ids.ts";
import { fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { CLAIMED } from "./classes.ts";
import { isEntry } from "./entry.ts";
import { SKIPPED } from "./outcome.ts";

/** The output that a person gave instead of a step, as the pass found it that refuses it. */
export interface GivenOutput {
  readonly key: EntryKey;
  readonly epoch: number;
  /** The run that the pass belongs to: one that hangs says nothing of what was given since. */
  readonly run: number;
}

/**
 * The output that a person gave instead of a step is refused: its entry is what it was before, or gone where there was none, so that what
 * is known of the effect is not lost, and the step can be tried anew, undone or skipped again.
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

/** Of one that was skipped before entries kept it nobody knows: such an upstream, or a person, is asked. */
const STATE_BEFORE = fragment(`coalesce(skipped_over->>'state', iif(class IN ${CLAIMED.fragment}, 'claimed', 'failed'))`);

const isGiven = ({ key, epoch, run }: GivenOutput) => sql`
  ${isEntry(key)} AND state = 'failed' AND token = ${SKIPPED} AND epoch = ${epoch}
  AND EXISTS (SELECT 1 FROM millrace_instances WHERE millrace_instances.id = ${key.instanceId} AND millrace_instances.run = ${run})`;
