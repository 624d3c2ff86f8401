import { instanceId, platformId } from "../../contract/ids.ts";
import { among, fragment, sql } from "../../contract/sql.ts";
import type { Row } from "../../store/d1/retry.ts";
import { ASKED, type Finder, type Found, hashBeginningWith, type Sought, titleOf } from "./finder.ts";

const COLUMNS = fragment("id, tenant_id, workflow, status, idempotency_key, subject, accepted_at");

/** The ids of an instance's events, questions and messages begin with its id. */
const OF_INSTANCE = /^([0-9a-f]{32})(?:[./-].*)?$/s;

/**
 * Maximum number of hashes with the same prefix that a search reads. The search reads the hashes of all tenants, and then removes other
 * tenants' hashes.
 */
const ALIKE = 100;

/**
 * Number of newest instances that are searched for a subject or a trace. An index by subject or by trace would cost a written row per
 * instance. The list of instances also searches older instances.
 */
export const LOOKED_BACK = 2000;

const UNDOS = 500;

export const byId: Finder = {
  kind: "instance",
  look: ({ text, by }) => {
    const [, id] = OF_INSTANCE.exec(text.toLowerCase()) ?? [];
    if (id !== undefined) return sql`SELECT ${COLUMNS} FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`;
    const range = hashBeginningWith(text);
    return (
      range &&
      sql`
      SELECT ${COLUMNS} FROM (SELECT * FROM millrace_instances WHERE id >= ${range.from} AND id < ${range.to} ORDER BY id LIMIT ${ALIKE})
      WHERE tenant_id = ${by.tenantId} LIMIT ${ASKED}`
    );
  },
  read: (row, { text }) => found(row, "id", text.toLowerCase().startsWith(String(row.id)) ? "exact" : "prefix"),
};

/** An instance's id is a hash of its workflow and its key, so a key has a separate id for each workflow. */
export const byKey: Finder = {
  kind: "instance",
  look: ({ text, by, known }) => sql`
    SELECT ${COLUMNS} FROM millrace_instances
    WHERE id IN ${among(known.workflows.map((workflow) => instanceId(by.tenantId, workflow, text)))} AND +tenant_id = ${by.tenantId}`,
  read: (row) => found(row, "idempotency_key", "exact"),
};

export const recent: Finder = {
  kind: "instance",
  look: ({ text, by }) => {
    const trace = isTraceId(text) ? `00-${text}-` : undefined;
    return trace === undefined
      ? sql`
        SELECT ${COLUMNS} FROM (
          SELECT * FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
          ORDER BY accepted_at DESC, id DESC LIMIT ${LOOKED_BACK})
        WHERE subject = ${text} LIMIT ${ASKED}`
      : sql`
        SELECT ${COLUMNS}, 1 AS traced FROM (
          SELECT * FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
          ORDER BY accepted_at DESC, id DESC LIMIT ${LOOKED_BACK})
        WHERE subject = ${text} OR substr(envelope->>'traceparent', 1, 36) = ${trace} LIMIT ${ASKED}`;
  },
  read: (row, { text }) => found(row, row.subject === text ? "subject" : "trace_id", "exact"),
};

/**
 * Selects the acceptance time of the oldest searched instance. The statement selects no row if the search covered all of the tenant's
 * instances.
 */
export const lookedBackTo = ({ by }: Pick<Sought, "by">) => sql`
  SELECT accepted_at AS at FROM millrace_instances INDEXED BY millrace_instances_by_time WHERE tenant_id = ${by.tenantId}
  ORDER BY accepted_at DESC, id DESC LIMIT 1 OFFSET ${LOOKED_BACK - 1}`;

/** Finds an instance by the id of its undo on the platform, which is a hash of the instance's id and the action's id. */
export const byUndo: Finder = {
  kind: "instance",
  look: ({ text, by }) =>
    isTraceId(text)
      ? sql`
        SELECT i.id, i.tenant_id, i.workflow, i.status, i.idempotency_key, i.subject, i.accepted_at, a.id AS undo FROM (
          SELECT id, instance_id, verb FROM millrace_actions WHERE tenant_id = ${by.tenantId} ORDER BY at DESC, id DESC LIMIT ${UNDOS}) a
        CROSS JOIN millrace_instances i ON i.id = a.instance_id
        WHERE a.verb = 'undo' AND i.tenant_id = ${by.tenantId}`
      : undefined,
  read: (row, { text }) => (platformId(String(row.id), String(row.undo)) === text ? found(row, "platform_id", "exact") : undefined),
};

/** True for 32 hex characters, which may be an instance's id or a trace id. */
function isTraceId(text: string): boolean {
  return /^[0-9a-f]{32}$/.test(text);
}

function found(row: Row, by: string, match: Found["match"]): Found {
  return {
    id: String(row.id),
    title: titleOf(row.workflow, row.subject),
    status: String(row.status),
    at: Number(row.accepted_at),
    url: `/v1/instances/${row.id}`,
    by,
    match,
  };
}
