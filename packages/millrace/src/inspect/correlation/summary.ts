import { type Statement, sql } from "../../contract/sql.ts";
import type { Row } from "../../store/d1/retry.ts";
import { MAX_COUNTED } from "../../store/health.ts";
import { type InstanceStatus, UNDER_WAY } from "../../store/instances/status.ts";

export interface JobSummary {
  /** The counts of instances by status, workflow and message type. */
  instances: { status: InstanceStatus; workflow: string; messageType: string; count: number }[];
  deadLetters: { state: string; count: number }[];
  /**
   * True if 10,000 instances or 10,000 dead letters of the job were counted. Then the job may have more members than the summary covers.
   */
  more: boolean;
  /**
   * `firstAt`: when the job's first instance was accepted. `lastAt`: when an instance of the job last changed. Both are in milliseconds,
   * and null without instances.
   */
  firstAt: number | null;
  lastAt: number | null;
  /** True while an instance of the job has not ended. */
  isOpen: boolean;
}

export function countInstances(tenantId: string, job: string): Statement {
  return sql`
    SELECT status, workflow, message_type, count(*) AS members, min(accepted_at) AS first_at, max(updated_at) AS last_at FROM (
      SELECT status, workflow, message_type, accepted_at, updated_at FROM millrace_instances INDEXED BY millrace_instances_by_correlation
      WHERE tenant_id = ${tenantId} AND correlation_id = ${job} ORDER BY accepted_at, id LIMIT ${MAX_COUNTED})
    GROUP BY status, workflow, message_type`;
}

export function countLetters(tenantId: string, job: string): Statement {
  return sql`
    SELECT state, count(*) AS members FROM (
      SELECT state FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_correlation
      WHERE tenant_id = ${tenantId} AND correlation_id = ${job} LIMIT ${MAX_COUNTED})
    GROUP BY state`;
}

export function summaryOf(instances: readonly Row[], letters: readonly Row[]): JobSummary {
  const total = (rows: readonly Row[]) => rows.reduce((sum, { members }) => sum + Number(members), 0);
  const counted = instances.map(({ status, workflow, message_type, members }) => ({
    status: status as InstanceStatus,
    workflow: String(workflow),
    messageType: String(message_type),
    count: Number(members),
  }));
  return {
    instances: counted,
    deadLetters: letters.map(({ state, members }) => ({ state: String(state), count: Number(members) })),
    more: total(instances) >= MAX_COUNTED || total(letters) >= MAX_COUNTED,
    firstAt: instances.length === 0 ? null : Math.min(...instances.map(({ first_at }) => Number(first_at))),
    lastAt: instances.length === 0 ? null : Math.max(...instances.map(({ last_at }) => Number(last_at))),
    isOpen: counted.some(({ status }) => UNDER_WAY.has(status)),
  };
}
