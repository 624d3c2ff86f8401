import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { SOMEBODY_WAITS } from "./approvals.ts";
import { countOpen } from "./divergences.ts";
import { BEGUN, HAS_DEADLINE, IS_OVERDUE } from "./instances/status.ts";
import { TENANTS_TO_START, TURN } from "./instances/to-start.ts";

/** Maximum value of a count, because a larger count would only cost more reads. */
export const MAX_COUNTED = 10_000;

/** An instance, message or action counts as late when this time has passed since its due time, in milliseconds. */
const LATE_MS = 60_000;

/** Maximum number of groups of dead letters, by queue and reason, that are counted. */
const MAX_LETTER_GROUPS = 1000;
/** Maximum number of workflows with errored instances that are counted. */
const MAX_WORKFLOWS = 1000;
/** Maximum number of tenants with open deadlines that are counted. */
const MAX_TENANTS = 10_000;

const OPEN_LETTERS = fragment("millrace_dead_letters INDEXED BY millrace_dead_letters_open WHERE state = 'open'");
const ERRORED = fragment("millrace_instances INDEXED BY millrace_instances_errored_by_workflow WHERE status = 'errored'");
const WITH_DEADLINE = fragment(`millrace_instances INDEXED BY millrace_instances_by_deadline WHERE ${HAS_DEADLINE.fragment}`);
/** Maximum number of pending approvals that are read in each round. */
const MAX_QUESTIONS = 1000;
/** An approval is urgent when its remaining time is less than this time and less than half of its total time. */
const PRESSING_MS = 3_600_000;

const CAP = fragment(String(MAX_COUNTED));
const LATE = fragment(String(LATE_MS));
const PRESSING = fragment(String(PRESSING_MS));
const SECONDS_SINCE = (column: string) => fragment(`max(0, coalesce(${now.fragment} - min(${column}), 0)) / 1000.0`);

/**
 * Pending approvals whose instances can still use a decision. An approval of an ended run stays pending and is excluded. The query reads
 * only a limited number of pending approvals.
 */
const QUESTIONS = fragment(`(SELECT * FROM (SELECT * FROM millrace_approvals INDEXED BY millrace_approvals_pending
    WHERE state = 'pending' LIMIT ${MAX_QUESTIONS})
    AS millrace_approvals WHERE ${SOMEBODY_WAITS.fragment})`);

// The recursive query reads each tenant once from the index of deadlines.
const OVERDUE = fragment(`tenants(tenant_id) AS (
      SELECT * FROM (SELECT tenant_id FROM ${WITH_DEADLINE.fragment} ORDER BY tenant_id LIMIT 1)
      UNION ALL
      SELECT (SELECT tenant_id FROM ${WITH_DEADLINE.fragment} AND tenant_id > t.tenant_id ORDER BY tenant_id LIMIT 1)
      FROM tenants t WHERE t.tenant_id IS NOT NULL LIMIT ${MAX_TENANTS}),
    overdue AS (
      SELECT i.id, i.workflow, i.must_end_by FROM tenants t CROSS JOIN millrace_instances i INDEXED BY millrace_instances_by_deadline
      ON i.tenant_id = t.tenant_id AND ${IS_OVERDUE.fragment} LIMIT ${MAX_COUNTED})`);

/**
 * The statements for the health metrics. Each row has a `value` for one set of labels. If a statement is for several gauges, each row also
 * has the name of its gauge.
 */
export const HEALTH = {
  // The recursive query counts each queue and reason separately, so that many dead letters with one reason do not hide other reasons.
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
    SELECT count(*) AS value FROM (SELECT 1 FROM millrace_inbox INDEXED BY millrace_inbox_in_doubt WHERE state = 'in_doubt' LIMIT ${CAP})`,
  effects_in_doubt_oldest_seconds: sql`
    SELECT ${SECONDS_SINCE("updated_at")} AS value FROM millrace_inbox INDEXED BY millrace_inbox_in_doubt WHERE state = 'in_doubt'`,
  // The recursive query counts each workflow separately, so that many failures of one workflow do not hide other workflows.
  instances_errored_open: sql`
    WITH RECURSIVE workflows(name) AS (
      SELECT * FROM (SELECT workflow FROM ${ERRORED} ORDER BY workflow LIMIT 1)
      UNION ALL
      SELECT (SELECT workflow FROM ${ERRORED} AND workflow > w.name ORDER BY workflow LIMIT 1)
      FROM workflows w WHERE w.name IS NOT NULL LIMIT ${MAX_WORKFLOWS})
    SELECT name AS workflow, (SELECT count(*) FROM (SELECT 1 FROM ${ERRORED} AND workflow = w.name LIMIT ${CAP})) AS value
    FROM workflows w WHERE name IS NOT NULL`,
  instances_unchecked: sql`
    WITH RECURSIVE ${TENANTS_TO_START}
    SELECT iif(seen = 1, 'begun', 'not_begun') AS stage, count(*) AS value FROM (
      SELECT * FROM (SELECT 0 AS seen FROM tenants t CROSS JOIN millrace_instances INDEXED BY millrace_instances_to_check
        ON seen = 0 AND ${TURN} = turn AND check_at <= ${now} - ${LATE} LIMIT ${CAP})
      UNION ALL
      SELECT * FROM (SELECT 1 FROM millrace_instances INDEXED BY millrace_instances_to_check
        WHERE seen = 1 AND ${TURN} = '' AND check_at <= ${now} - ${LATE} LIMIT ${CAP})) GROUP BY seen`,
  instances_overdue: sql`WITH RECURSIVE ${OVERDUE} SELECT workflow, count(*) AS value FROM overdue GROUP BY workflow`,
  // One query returns three gauges of approvals and joins each approval with its instance.
  approvals: sql`
    WITH questions AS MATERIALIZED (
      SELECT workflow, asked_at, due_at - ${now} < min(${PRESSING}, (due_at - asked_at) / 2) AS pressing FROM ${QUESTIONS})
    SELECT 'approvals_waiting' AS gauge, workflow, count(*) AS value FROM questions GROUP BY workflow
    UNION ALL SELECT 'approvals_pressing', workflow, count(*) FROM questions WHERE pressing GROUP BY workflow
    UNION ALL SELECT 'approvals_oldest_seconds', NULL, ${SECONDS_SINCE("asked_at")} FROM questions`,
  outbox_unconfirmed: sql`SELECT count(*) AS value FROM (SELECT 1 FROM millrace_outbox INDEXED BY millrace_outbox_due LIMIT ${CAP})`,
  outbox_overdue_seconds: sql`SELECT ${SECONDS_SINCE("due_at")} AS value FROM millrace_outbox INDEXED BY millrace_outbox_due`,
  outbox_refused: sql`
    SELECT count(*) AS value FROM (SELECT 1 FROM millrace_outbox INDEXED BY millrace_outbox_refused WHERE error IS NOT NULL LIMIT ${CAP})`,
  actions_overdue: sql`
    SELECT count(*) AS value FROM
      (SELECT 1 FROM millrace_actions INDEXED BY millrace_actions_to_apply
        WHERE applied_at IS NULL AND due_at <= ${now} - ${LATE} LIMIT ${CAP})`,
  schedules_overdue_seconds: sql`
    SELECT ${SECONDS_SINCE("next_at")} AS value FROM millrace_schedules INDEXED BY millrace_schedules_due WHERE next_at IS NOT NULL`,
  // The table of lanes contains only lanes that are blocked or have a backlog.
  lanes_blocked: sql`
    SELECT lane, state, count(*) AS value FROM (SELECT lane, state FROM millrace_lanes LIMIT ${CAP})
    WHERE state IN ('paused', 'held', 'unknown') GROUP BY lane, state`,
  divergences: countOpen(MAX_COUNTED),
  lanes_backlog: sql`SELECT lane, sum(depth) AS value FROM (SELECT lane, depth FROM millrace_lanes LIMIT ${CAP}) GROUP BY lane`,
} as const satisfies Record<string, Statement>;

/**
 * Open instances by workflow and version, of the instances with the earliest checks. An instance without its version is among them, because
 * the keeper checks it every five minutes. The statement reads each of these rows, so it runs once a minute.
 */
export const OPEN_VERSIONS = sql`
  SELECT workflow, CAST(version AS TEXT) AS version, count(*) AS value FROM (
    SELECT workflow, version FROM millrace_instances INDEXED BY millrace_instances_to_check
    WHERE seen = 1 AND ${TURN} = '' AND check_at IS NOT NULL AND status IN ${BEGUN} ORDER BY check_at LIMIT ${CAP})
  GROUP BY workflow, version`;

/**
 * Up to three example instances for each group of a gauge; `workflow` is empty for a gauge without labels. The examples of a gauge are
 * queried only if the gauge's value is not 0.
 */
export const EXAMPLES = {
  effects_in_doubt: sql`
    SELECT '' AS workflow, json_group_array(DISTINCT instance_id) AS ids FROM (
      SELECT instance_id FROM millrace_inbox INDEXED BY millrace_inbox_in_doubt WHERE state = 'in_doubt' ORDER BY updated_at LIMIT 3)`,
  instances_overdue: sql`
    WITH RECURSIVE ${OVERDUE} SELECT workflow, json_group_array(id) AS ids FROM (
      SELECT id, workflow, row_number() OVER (PARTITION BY workflow ORDER BY must_end_by) AS place FROM overdue)
    WHERE place <= 3 GROUP BY workflow`,
} as const satisfies Partial<Record<keyof typeof HEALTH, Statement>>;
