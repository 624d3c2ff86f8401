import { parseEntryKey } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { askerOf } from "../../signals/approval.ts";
import { OVER_AS } from "../../store/approvals.ts";
import { ASKED, beginningWith, type Finder, hashBeginningWith, matchOf, titleOf } from "./finder.ts";

const ALIKE = 100;

/**
 * Finds jobs by correlation id. The query skips from each id to the next id in the index, so that a job with 10,000 members costs one step.
 */
export const jobs: Finder = {
  kind: "correlation",
  look: ({ text, by }) => {
    const { from, to } = beginningWith(text);
    return sql`
      WITH RECURSIVE jobs(id) AS (
        SELECT * FROM (
          SELECT correlation_id FROM millrace_instances INDEXED BY millrace_instances_by_correlation
          WHERE tenant_id = ${by.tenantId} AND correlation_id >= ${from} AND correlation_id < ${to}
          ORDER BY correlation_id LIMIT 1)
        UNION ALL
        SELECT (
          SELECT correlation_id FROM millrace_instances INDEXED BY millrace_instances_by_correlation
          WHERE tenant_id = ${by.tenantId} AND correlation_id > jobs.id AND correlation_id < ${to}
          ORDER BY correlation_id LIMIT 1)
        FROM jobs WHERE jobs.id IS NOT NULL LIMIT ${ASKED})
      SELECT id, (
        SELECT accepted_at FROM millrace_instances INDEXED BY millrace_instances_by_correlation
        WHERE tenant_id = ${by.tenantId} AND correlation_id = jobs.id ORDER BY accepted_at, id LIMIT 1) AS at
      FROM jobs WHERE id IS NOT NULL`;
  },
  read: (row, sought) => ({
    id: String(row.id),
    title: titleOf(row.id),
    status: null,
    at: Number(row.at),
    url: `/v1/correlations/${encodeURIComponent(String(row.id))}`,
    by: "id",
    match: matchOf(row.id, sought),
  }),
};

export const effects: Finder = {
  kind: "effect",
  look: ({ text, by }) => {
    const key = parseEntryKey(text);
    return (
      key &&
      sql`
      SELECT e.instance_id, e.step, e.item, e.state, e.updated_at FROM millrace_instances i
        CROSS JOIN millrace_inbox e ON e.instance_id = i.id
      WHERE i.id = ${key.instanceId} AND i.tenant_id = ${by.tenantId}
        AND e.step = ${key.step} AND e.item = ${key.item} AND e.generation = ${key.generation}`
    );
  },
  read: (row, { text }) => ({
    id: text,
    title: titleOf(row.step, row.item),
    status: String(row.state),
    at: Number(row.updated_at),
    url: `/v1/instances/${row.instance_id}/effects`,
    by: "key",
    match: "exact",
  }),
};

export const instanceThatAsks = (approval: string): string => askerOf(approval);

export const approvals: Finder = {
  kind: "approval",
  look: ({ text, by }) =>
    askerOf(text) === ""
      ? undefined
      : sql`
        SELECT id, question, iif(${OVER_AS} IS NULL, state, 'over') AS state, asked_at FROM millrace_approvals
        WHERE instance_id = ${askerOf(text)} AND id = ${text} AND tenant_id = ${by.tenantId}`,
  read: (row) => ({
    id: String(row.id),
    title: titleOf(row.question),
    status: String(row.state),
    at: Number(row.asked_at),
    url: `/v1/approvals/${row.id}`,
    by: "id",
    match: "exact",
  }),
};

/** Finds operator actions by id. Each result links to the page of the audit whose first entry is the action. */
export const actions: Finder = {
  kind: "action",
  look: ({ text, by }) => {
    const range = hashBeginningWith(text);
    return (
      range &&
      sql`
      SELECT id, verb, target, result, at FROM (
        SELECT * FROM millrace_actions WHERE id >= ${range.from} AND id < ${range.to} ORDER BY id LIMIT ${ALIKE})
      WHERE tenant_id = ${by.tenantId} LIMIT ${ASKED}`
    );
  },
  read: (row, sought) => ({
    id: String(row.id),
    title: titleOf(row.verb, row.target),
    status: String(row.result),
    at: Number(row.at),
    url: `/v1/audit?cursor=${row.at}.${row.id}_&limit=1`,
    by: "id",
    match: matchOf(row.id, sought),
  }),
};

export const schedules: Finder = {
  kind: "schedule",
  look: ({ text, by }) => {
    const { from, to } = beginningWith(text);
    return sql`
      SELECT name, command, state, changed_at FROM millrace_schedules
      WHERE tenant_id = ${by.tenantId} AND name >= ${from} AND name < ${to} ORDER BY name LIMIT ${ASKED}`;
  },
  read: (row, sought) => ({
    id: String(row.name),
    title: titleOf(row.name, row.command),
    status: String(row.state),
    at: Number(row.changed_at),
    url: `/v1/schedules/${encodeURIComponent(String(row.name))}`,
    by: "name",
    match: matchOf(row.name, sought),
  }),
};
