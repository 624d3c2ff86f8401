import { now, type Statement, sql } from "../../contract/sql.ts";
import { DOUBTED } from "./classes.ts";
import { type Attempt, isEntry } from "./entry.ts";

/**
 * Takes a key before its effect runs: a fresh one, one whose effect certainly did not happen, or one whose claim ran out.
 * In the last case the upstream may have been reached: a `lookup` effect remembers to ask it (`repeats`), a `once`
 * effect goes into doubt, because the machine never repeats it. Every takeover grows the epoch. A repeat of the same
 * call changes nothing, because its token already holds the row. Refused, like `recordOutcome`, when the pass is not alone.
 */
export function claimEntry(attempt: Attempt, leaseMs: number, input: string | null): Statement {
  const { key } = attempt;
  return sql`
    INSERT INTO inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, lease_until, input,
      undoable, began_at, updated_at)
    VALUES (${key.instanceId}, ${key.step}, ${key.item}, ${key.generation}, ${attempt.position}, ${attempt.after}, ${attempt.caught},
      ${attempt.class},
      iif(EXISTS (SELECT 1 FROM inbox other
        WHERE other.instance_id = ${key.instanceId} AND substr(other.token, 1, 8) <> ${attempt.aloneAs}), NULL, 'claimed'),
      1, ${attempt.token}, ${now} + ${leaseMs}, ${input}, ${attempt.undoable ? 1 : 0}, ${attempt.beganAt ?? null}, ${now})
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET
      state = iif(inbox.state = 'claimed' AND inbox.class IN ${DOUBTED}, 'in_doubt', 'claimed'),
      repeats = max(inbox.repeats, inbox.state = 'claimed'),
      position = excluded.position, after = excluded.after, caught = excluded.caught, error = NULL,
      input = iif(inbox.state = 'claimed' AND inbox.class IN ${DOUBTED}, inbox.input, excluded.input),
      epoch = inbox.epoch + 1, token = excluded.token, lease_until = excluded.lease_until, began_at = excluded.began_at,
      updated_at = excluded.updated_at
    WHERE inbox.state = 'failed' OR (inbox.state = 'claimed' AND inbox.lease_until <= ${now} AND inbox.token <> excluded.token)`;
}

/** Keeps a claim alive while its effect is still under way. Answers a row only to the holder. */
export function extendLease(attempt: Attempt, leaseMs: number): Statement {
  return sql`
    UPDATE inbox SET lease_until = ${now} + ${leaseMs}
    WHERE ${isHeldBy(attempt)} AND state = 'claimed'
    RETURNING 1`;
}

/**
 * How a claim, or an output that a person gave, ends without an outcome: `failed` (nothing happened), `in_doubt` (nobody knows), or
 * `expired` (unknown; the next attempt asks the upstream).
 */
export function giveUpClaim(attempt: Attempt, ending: "failed" | "in_doubt" | "expired", error: string): Statement {
  return sql`
    UPDATE inbox SET state = iif(${ending} = 'expired', state, ${ending}), lease_until = ${now}, error = ${error}, updated_at = ${now}
    WHERE ${isHeldBy(attempt)} AND (state = 'claimed' OR (state = 'confirmed' AND ${ending} = 'in_doubt'))`;
}

/** The condition that an entry is held by this attempt. */
function isHeldBy({ key, token, epoch }: Attempt): Statement {
  return sql`${isEntry(key)} AND token = ${token} AND epoch = ${epoch}`;
}
