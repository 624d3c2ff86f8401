import * as z from "zod";
import type { Issue } from "../../contract/errors.ts";
import { unknownName } from "../../contract/known-fields.ts";
import { andEquals, fragment, type Statement, sql } from "../../contract/sql.ts";
import { type Activity, andActivity } from "../../inspect/activity.ts";
import { whereLettersAre } from "../../inspect/dead-letters.ts";
import { whereInstancesOf } from "../../inspect/instances.ts";
import type { Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { INSTANCE_STATUSES, type InstanceStatus } from "../../store/instances/status.ts";
import { namesOf } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { BULK_WORKFLOW } from "./message.ts";

const name = z.string().min(1).max(500).optional();
const moment = z.iso.datetime({ offset: true }).optional();

const times = { since: moment, until: moment };

const ofInstances = z.strictObject({
  status: z.enum(INSTANCE_STATUSES),
  ...{ workflow: name, subject: name, correlation: name, tag: name, ...times, cause: name },
  /** For terminated instances: true selects undone instances, false selects instances that were not undone. */
  undone: z.boolean().optional(),
});
type InstanceFilter = z.infer<typeof ofInstances>;

export function instanceFilter(statuses: readonly InstanceStatus[], usual: InstanceStatus | undefined): z.ZodType<InstanceFilter> {
  const one = z.enum(statuses as [InstanceStatus, ...InstanceStatus[]]);
  const status = usual === undefined ? one : one.default(usual);
  // A cause exists only for errored instances, and only terminated instances may be undone.
  return (statuses.includes("errored") ? ofInstances : ofInstances.omit({ cause: true, undone: true })).extend({ status });
}

/** The tenant's instances that match a filter, without the instances of bulk actions. */
export function instanceMembers(by: Operator, filter: InstanceFilter, activity?: Activity): Statement {
  const { status, workflow, subject, correlation, tag, cause, undone } = filter;
  const [since, until] = spanOf(filter);
  return sql`
    SELECT id, accepted_at AS at FROM millrace_instances ${whereInstancesOf(by, { status, correlation, tag, cause, since, until })}
      AND status = ${status} AND workflow <> ${BULK_WORKFLOW}
      ${andEquals(fragment("workflow"), workflow)} ${andEquals(fragment("subject"), subject)}
      ${andEquals(fragment("undone"), undone === undefined ? undefined : Number(undone))} ${andActivity(activity)}
      AND accepted_at >= ${since} AND accepted_at < ${until}`;
}

export const letterFilter = z.strictObject({ queue: name, message_type: name, reason: name, cause: name, ...times });

/** The tenant's open dead letters that match a filter. An operator handles each dead letter without a tenant individually. */
export function letterMembers({ tenantId }: Operator, filter: z.infer<typeof letterFilter>): Statement {
  const [since, until] = spanOf(filter);
  return sql`
    SELECT id, captured_at AS at FROM millrace_dead_letters ${whereLettersAre(filter)} AND tenant_id = ${tenantId}
      ${andEquals(fragment("queue"), filter.queue)} ${andEquals(fragment("message_type"), filter.message_type)}
      ${andEquals(fragment("reason"), filter.reason)}
      AND captured_at >= ${since} AND captured_at < ${until}`;
}

/** `step` is a step's name in the code, of any item and generation. The time is when the outcome became unknown. */
export const doubtFilter = z.strictObject({ workflow: name, step: name, subject: name, correlation: name, ...times });

/** The tenant's unknown outcomes that match a filter, each as a string with the parts of the effect's key. */
export function doubtMembers({ tenantId }: Operator, filter: z.infer<typeof doubtFilter>): Statement {
  const [since, until] = spanOf(filter);
  return sql`
    SELECT json_array(e.instance_id, e.step, e.item, e.generation) || '' AS id, e.updated_at AS at
    FROM millrace_inbox e INDEXED BY millrace_inbox_in_doubt CROSS JOIN millrace_instances i ON i.id = e.instance_id
    WHERE e.state = 'in_doubt' AND i.tenant_id = ${tenantId}
      ${andEquals(fragment("workflow"), filter.workflow)} ${andEquals(fragment("step"), filter.step)}
      ${andEquals(fragment("subject"), filter.subject)} ${andEquals(fragment("correlation_id"), filter.correlation)}
      AND e.updated_at >= ${since} AND e.updated_at < ${until}`;
}

function spanOf({ since, until }: { since?: string | undefined; until?: string | undefined }): [from: number, to: number] {
  return [since === undefined ? 0 : Date.parse(since), until === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(until)];
}

type Named = Readonly<Partial<Record<"workflow" | "queue" | "message_type" | "cause", string | undefined>>>;

/** The names in a filter that the deployment does not know. A `cause` must have a present instance or dead letter of the tenant. */
export async function unknownIn({ env, catalog, by }: BulkCall, filter: Named, of: "instances" | "dead-letters"): Promise<Issue[]> {
  const { workflows, events } = namesOf(catalog);
  const known = {
    workflow: workflows,
    queue: catalog.consumers.map((consumer) => consumer.queue.name),
    message_type: [...new Set([...catalog.workflows.map(({ on }) => on.type), ...events])],
  };
  const issues = (Object.keys(known) as (keyof typeof known)[]).flatMap((field) => {
    const name = filter[field];
    return name === undefined || known[field].includes(name) ? [] : [unknownName(`filter.${field}`, name, known[field])];
  });
  if (filter.cause === undefined) return issues;
  const isOfTenant = sql`tenant_id = ${by.tenantId} AND cause = ${filter.cause}`;
  const found = await query(
    env.DB,
    of === "instances"
      ? sql`SELECT 1 FROM millrace_instances INDEXED BY millrace_instances_by_cause WHERE ${isOfTenant} AND status = 'errored' LIMIT 1`
      : sql`SELECT 1 FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_cause WHERE ${isOfTenant} LIMIT 1`,
  );
  if (found.length > 0) return issues;
  return [...issues, { path: "filter.cause", message: `is the id of no current cause: list causes with GET /v1/${of}/causes` }];
}
