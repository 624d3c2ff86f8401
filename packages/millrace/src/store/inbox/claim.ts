import type { EntryKey } from "../../contract/ids.ts";
import { type Fragment, fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { ASKED, CLAIMED } from "./classes.ts";
import { type Attempt, ENTRY_LABEL, IS_LEFT_ALONE, isEntry } from "./entry.ts";
import { SKIPPED } from "./outcome.ts";

/**
 * The condition that an effect may have happened and its upstream cannot be queried. The reason is that the recorded effect class or the
 * class in the running code has no query.
 */
const CANNOT_BE_ASKED = fragment(`((millrace_inbox.state = 'claimed' OR ${IS_LEFT_ALONE.fragment})
        AND NOT (millrace_inbox.class IN ${ASKED.fragment} AND excluded.class IN ${ASKED.fragment}))`);

/** The `Failure` for an unknown outcome after a deployment changed the effect class. `nowClass` is the effect class in the running code. */
const classChanged = (nowClass: string | Fragment) => sql`
  json_object('step', ${ENTRY_LABEL}, 'code', 'in_doubt', 'attempts', 0, 'message',
    'Its outcome is unknown: an attempt as "' || millrace_inbox.class
    || '" was cut off, and a deployment has since made the step "' || ${nowClass}
    || '". Check the receiving side, then confirm, reject or retry it.')`;

/**
 * Claims a key before its effect runs. The key must be new, or have an expired claim, or belong to an effect that certainly did not happen.
 * The attempt with an expired claim may have reached the upstream. A `lookup` step queries the upstream (`repeats`), if the claim's class
 * is `lookup` too. Otherwise the expired claim becomes an unknown outcome, because the effect must not be repeated automatically. Each
 * takeover of a claim increments the epoch. A repeat of the same call changes nothing, because the row already has the call's token. The
 * claim is refused, like `recordOutcome`, when another replay of the instance has written to the inbox.
 */
export function claimEntry(attempt: Attempt, leaseMs: number, input: string | null): Statement {
  const { key } = attempt;
  return sql`
    INSERT INTO millrace_inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, lease_until,
      input,
      undoable, began_at, updated_at)
    VALUES (${key.instanceId}, ${key.step}, ${key.item}, ${key.generation}, ${attempt.position}, ${attempt.after}, ${attempt.caught},
      ${attempt.class},
      iif(EXISTS (SELECT 1 FROM millrace_inbox other WHERE other.instance_id = ${key.instanceId}
        AND other.updated_at >= ${attempt.readAt}
        AND substr(other.token, 1, 8) NOT IN (${attempt.replay}, ${attempt.given ?? ""})), NULL, 'claimed'),
      1, ${attempt.token}, ${now} + ${leaseMs}, ${input}, ${attempt.undoable ? 1 : 0}, ${attempt.beganAt ?? null}, ${now})
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET
      state = iif(${CANNOT_BE_ASKED}, 'in_doubt', 'claimed'), class = iif(${CANNOT_BE_ASKED}, millrace_inbox.class, excluded.class),
      repeats = max(millrace_inbox.repeats, millrace_inbox.state = 'claimed'),
      position = excluded.position, after = excluded.after, caught = excluded.caught,
      error = iif(${CANNOT_BE_ASKED} AND millrace_inbox.class <> excluded.class, ${classChanged(fragment("excluded.class"))}, NULL),
      input = iif(${CANNOT_BE_ASKED}, millrace_inbox.input, excluded.input),
      epoch = millrace_inbox.epoch + 1, token = excluded.token, lease_until = excluded.lease_until, began_at = excluded.began_at,
      updated_at = excluded.updated_at
    WHERE millrace_inbox.state = 'failed' OR (millrace_inbox.state = 'claimed' AND millrace_inbox.lease_until <= ${now}
      AND millrace_inbox.token <> excluded.token)`;
}

/**
 * Marks an expired claim as an unknown outcome if a deployment has changed the step to a class without claims. The new class would repeat
 * the effect, but the class of the claim forbids a repeat.
 */
export function doubtClaim({ key, token, class: nowClass }: Attempt): Statement {
  return sql`
    UPDATE millrace_inbox SET state = 'in_doubt', repeats = 1, epoch = epoch + 1, token = ${token}, error = ${classChanged(nowClass)},
      updated_at = ${now}
    WHERE ${isEntry(key)} AND ((state = 'claimed' AND lease_until <= ${now}) OR ${IS_LEFT_ALONE})`;
}

/** Extends a claim while its effect is in progress. The statement returns a row only to the claim's holder. */
export function extendLease(attempt: Attempt, leaseMs: number): Statement {
  return sql`
    UPDATE millrace_inbox SET lease_until = ${now} + ${leaseMs}
    WHERE ${isHeldBy(attempt)} AND state = 'claimed'
    RETURNING 1`;
}

/**
 * Ends a claim without an outcome, or discards an output that an operator gave. The argument `failed` means that nothing happened. The
 * arguments `in_doubt` and `expired` mean that the outcome is unknown, and after the latter the next attempt queries the upstream.
 */
export function giveUpClaim(attempt: Attempt, ending: "failed" | "in_doubt" | "expired", error: string): Statement {
  return sql`
    UPDATE millrace_inbox SET state = iif(${ending} = 'expired', state, ${ending}), lease_until = ${now}, error = ${error},
      updated_at = ${now}
    WHERE ${isHeldBy(attempt)} AND (state = 'claimed' OR (state = 'confirmed' AND ${ending} = 'in_doubt'))`;
}

/** The condition that this attempt holds the claim of an inbox entry. */
function isHeldBy({ key, token, epoch }: Attempt): Statement {
  return sql`${isEntry(key)} AND token = ${token} AND epoch = ${epoch}`;
}

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
