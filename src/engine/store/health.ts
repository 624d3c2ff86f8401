import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { countOpen } from "./divergences.ts";
import { HAS_DEADLINE, IS_OVERDUE } from "./instances/overdue.ts";

/** A count goes up to this: what is more is as bad, and reading on would cost as much again. */
export const MAX_COUNTED = 10_000;

/** An instance, a message or an action is late when its keeper should have seen to it so long ago. */
const LATE_MS = 60_000;

/** Queues have a handful of reasons each. */
const MAX_LETTER_GROUPS = 1000;
/** Tenants with deadlines under way: those beyond are not looked at. */
const MAX_TENANTS = 10_000;

const OPEN_LETTERS = fragment("dead_letters INDEXED BY dead_letters_open WHERE state = 'open'");
const WITH_DEADLINE = fragment(`instances INDEXED BY instances_by_deadline WHERE ${HAS_DEADLINE.fragment}`);
const CAP = fragment(String(MAX_COUNTED));
const LATE = fragment(String(LATE_MS));
const SECONDS_SINCE = (column: string) => fragment(`max(0, coalesce(${now.fragment} - min(${column}), 0)) / 1000.0`);

/** What the database says of a deployment's health: each statement answers one `value` for each of its labels, from an index alone. */
export const HEALTH = {
  // From group to group of the index, so that no storm in one hides another.
  dead_letters_open: sql`
    WITH RECURSIVE letter_groups(queue, reason) AS (
      SELECT * FROM (SELECT queue, reason FROM ${OPEN_LETTERS} ORDER BY queue, reason LIMIT 1)
      UNION ALL
      SELECT (SELECT queue FROM ${OPEN_LETTERS} AND (queue, reason) > (g.queue, g.reason) ORDER BY queue, reason LIMIT 1),
        (SELECT reason FROM ${OPEN_LETTERS} AND (queue, reason) > (g.queue, g.reason) ORDER BY queue, reason LIMIT 1)
      FROM letter_groups g WHERE g.queue IS NOT NULL LIMIT ${MAX_LETTER_GROUPS})
    SELECT queue, reason, (
      SELECT count(*) FROM (SELECT 1 FROM ${OPEN_LETTERS} AND queue = g.queue AND reason = g.reason LIMIT ${CAP})) AS value
    FROM letter_groups g WHERE queue IS NOT NULL`,
  effects_in_doubt: sql`
    SELECT count(*) AS value FROM (SELECT 1 FROM inbox INDEXED BY inbox_in_doubt WHERE state = 'in_doubt' LIMIT ${CAP})`,
  effects_in_doubt_oldest_seconds: sql`
    SELECT ${SECONDS_SINCE("updated_at")} AS value FROM inbox INDEXED BY inbox_in_doubt WHERE state = 'in_doubt'`,
  instances_unchecked: sql`
    SELECT iif(seen = 1, 'begun', 'not_begun') AS stage, count(*) AS value FROM (
      SELECT * FROM (SELECT 0 AS seen FROM instances INDEXED BY instances_to_check
        WHERE seen = 0 AND check_at <= ${now} - ${LATE} LIMIT ${CAP})
      UNION ALL
      SELECT * FROM (SELECT 1 FROM instances INDEXED BY instances_to_check
        WHERE seen = 1 AND check_at <= ${now} - ${LATE} LIMIT ${CAP})) GROUP BY seen`,
  // From tenant to tenant of the index, which is the one that their lists read.
  instances_overdue: sql`
    WITH RECURSIVE tenants(tenant_id) AS (
      SELECT * FROM (SELECT tenant_id FROM ${WITH_DEADLINE} ORDER BY tenant_id LIMIT 1)
      UNION ALL
      SELECT (SELECT tenant_id FROM ${WITH_DEADLINE} AND tenant_id > t.tenant_id ORDER BY tenant_id LIMIT 1)
      FROM tenants t WHERE t.tenant_id IS NOT NULL LIMIT ${MAX_TENANTS})
    SELECT workflow, count(*) AS value FROM (
      SELECT i.workflow FROM tenants t CROSS JOIN instances i INDEXED BY instances_by_deadline
      ON i.tenant_id = t.tenant_id AND ${IS_OVERDUE} LIMIT ${CAP}) GROUP BY workflow`,
  outbox_unconfirmed: sql`SELECT count(*) AS value FROM (SELECT 1 FROM outbox INDEXED BY outbox_due LIMIT ${CAP})`,
  outbox_overdue_seconds: sql`SELECT ${SECONDS_SINCE("due_at")} AS value FROM outbox INDEXED BY outbox_due`,
  outbox_refused: sql`
    SELECT count(*) AS value FROM (SELECT 1 FROM outbox INDEXED BY outbox_refused WHERE error IS NOT NULL LIMIT ${CAP})`,
  actions_overdue: sql`
    SELECT count(*) AS value FROM
      (SELECT 1 FROM actions INDEXED BY actions_to_apply WHERE applied_at IS NULL AND due_at <= ${now} - ${LATE} LIMIT ${CAP})`,
  schedules_overdue_seconds: sql`
    SELECT ${SECONDS_SINCE("next_at")} AS value FROM schedules INDEXED BY schedules_due WHERE next_at IS NOT NULL`,
  // The table holds lanes that stand still or have a backlog, and no others.
  lanes_blocked: sql`
    SELECT lane, state, count(*) AS value FROM (SELECT lane, state FROM lanes LIMIT ${CAP})
    WHERE state IN ('paused', 'held', 'unknown') GROUP BY lane, state`,
  divergences: countOpen(MAX_COUNTED),
  lanes_backlog: sql`SELECT lane, sum(depth) AS value FROM (SELECT lane, depth FROM lanes LIMIT ${CAP}) GROUP BY lane`,
} as const satisfies Record<string, Statement>;
