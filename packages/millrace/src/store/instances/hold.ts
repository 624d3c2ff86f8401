import { among, now, type Statement, sql } from "../../contract/sql.ts";
import { pauseOf } from "../pauses.ts";
import { UNSEEN } from "./status.ts";

/** The keeper checks a held instance after this time, in milliseconds, even if no resume has made the check due. */
export const HELD_MS = 6 * 3_600_000;

/**
 * Holds instances that have not started, while their workflow or queue is paused. The resume of the workflow or queue makes the keeper's
 * checks of the held instances due.
 */
export function holdBack(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET held_by = ${pauseOf("p.id")}, check_at = ${now} + ${HELD_MS}
    WHERE id IN ${among(ids)} AND status IN ${UNSEEN} AND ${pauseOf("p.id")} IS NOT NULL`;
}

/**
 * Makes the keeper check the instances whose pause has ended. Instances that were accepted earlier come first. The statement returns the
 * ids of these instances.
 */
export function releaseHeld(limit: number): Statement {
  return sql`
    UPDATE millrace_instances SET held_by = NULL, check_at = min(check_at, ${now})
    WHERE id IN (
      SELECT id FROM millrace_instances INDEXED BY millrace_instances_held
      WHERE held_by = (
        SELECT p.id FROM millrace_pauses p INDEXED BY millrace_pauses_resumed
        WHERE p.resumed_at IS NOT NULL AND EXISTS (SELECT 1 FROM millrace_instances h WHERE h.held_by = p.id)
        ORDER BY p.resumed_at LIMIT 1)
      ORDER BY accepted_at LIMIT ${limit})
    RETURNING id`;
}
