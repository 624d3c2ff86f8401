import * as z from "zod";
import { iso, timestamp } from "../../contract/row.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import type { Row } from "../../store/d1/retry.ts";
import { MAX_COUNTED } from "../../store/health.ts";
import { INSTANCE_STATUSES, type InstanceStatus, UNDER_WAY } from "../../store/instances/status.ts";

export const JobSummary = z
  .object({
    open: z.boolean().meta({ description: "True while an instance of the job is running." }),
    first_at: timestamp.nullable(),
    last_at: timestamp.nullable(),
    instances: z.array(z.object({ status: z.enum(INSTANCE_STATUSES), workflow: z.string(), message_type: z.string(), count: z.int() })),
    dead_letters: z.array(z.object({ state: z.string(), count: z.int() })),
    more: z
      .boolean()
      .meta({ description: "True if the job has more instances or messages than the first 10,000 of each, which are counted." }),
  })
  .meta({ id: "JobSummary" });
export type JobSummary = z.infer<typeof JobSummary>;

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
    message_type: String(message_type),
    count: Number(members),
  }));
  return {
    open: counted.some(({ status }) => UNDER_WAY.has(status)),
    first_at: instances.length === 0 ? null : iso(Math.min(...instances.map(({ first_at }) => Number(first_at)))),
    last_at: instances.length === 0 ? null : iso(Math.max(...instances.map(({ last_at }) => Number(last_at)))),
    instances: counted,
    dead_letters: letters.map(({ state, members }) => ({ state: String(state), count: Number(members) })),
    more: total(instances) >= MAX_COUNTED || total(letters) >= MAX_COUNTED,
  };
}
