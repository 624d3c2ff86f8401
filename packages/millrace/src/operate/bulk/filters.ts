import * as z from "zod";
import type { Issue } from "../../contract/errors.ts";
import { unknownName } from "../../contract/known-fields.ts";
import { andEquals, fragment, type Statement, sql } from "../../contract/sql.ts";
import { whereLettersAre } from "../../inspect/dead-letters.ts";
import { whereInstancesOf } from "../../inspect/instances.ts";
import { andStands, type StandingName } from "../../inspect/standing.ts";
import type { Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import { type Catalog, namesOf } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { BULK_WORKFLOW } from "./message.ts";

const moment = z.iso.datetime({ offset: true });
const name = z.string().min(1).max(500);

/** The fields of a filter by time, which selects items at or after `since` and before `until`. */
const times = {
  since: moment
    .optional()
    .meta({ description: "Accepted (instances) or captured (dead letters) at this time or later. Default: no lower limit." }),
  until: moment
    .optional()
    .meta({ description: "Accepted (instances) or captured (dead letters) before this time. Default: the time of the request." }),
};

const causeOf = (of: string) => name.optional().meta({ description: `An \`id\` of \`${of}\`.` });

const undone = z
  .boolean()
  .meta({ description: "For terminated instances: true selects undone instances, false selects instances that were not undone." });

interface MeantInstances {
  readonly status: InstanceStatus;
  readonly workflow?: string | undefined;
  readonly subject?: string | undefined;
  readonly correlation?: string | undefined;
  readonly tag?: string | undefined;
  readonly cause?: string | undefined;
  readonly undone?: boolean | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

export function instanceFilter(statuses: readonly InstanceStatus[], usual: InstanceStatus | undefined): z.ZodType<MeantInstances> {
  const status = z.enum(statuses as [InstanceStatus, ...InstanceStatus[]]);
  const shape = {
    status: usual === undefined ? status : status.default(usual),
    workflow: name.optional(),
    subject: name.optional(),
    correlation: name.optional(),
    tag: name.optional(),
    ...times,
  };
  // A cause exists only for errored instances, and only terminated instances may be undone.
  return statuses.includes("errored")
    ? z.strictObject({ ...shape, cause: causeOf("/v1/instances/causes"), undone: undone.optional() })
    : z.strictObject(shape);
}

/** The tenant's instances that match a filter, without the instances of bulk actions. */
export function instanceMembers(by: Operator, filter: MeantInstances, standing?: StandingName): Statement {
  const { status, workflow, subject, correlation, tag, cause, undone } = filter;
  const meant = { status, correlation, tag, cause, since: from(filter), until: to(filter) };
  return sql`
    SELECT id, accepted_at AS at FROM millrace_instances ${whereInstancesOf(by, meant)}
      AND status = ${status} AND workflow <> ${BULK_WORKFLOW}
      ${andEquals(fragment("workflow"), workflow)} ${andEquals(fragment("subject"), subject)}
      ${andUndone(undone)} ${andStands(standing)}
      AND accepted_at >= ${from(filter)} AND accepted_at < ${to(filter)}`;
}

function andUndone(undone: boolean | undefined): Statement {
  return undone === undefined ? sql`` : sql`AND undone = ${undone ? 1 : 0}`;
}

export const letterFilter = z.strictObject({
  queue: name.optional(),
  message_type: name.optional(),
  reason: name.optional().meta({ description: "The code of the error, or `exhausted`." }),
  cause: causeOf("/v1/dead-letters/causes"),
  ...times,
});

/**
 * The tenant's open dead letters that match a filter. Dead letters without a tenant are excluded, because an operator handles each of these
 * individually.
 */
export function letterMembers({ tenantId }: Operator, filter: z.infer<typeof letterFilter>): Statement {
  return sql`
    SELECT id, captured_at AS at FROM millrace_dead_letters ${whereLettersAre(filter)} AND tenant_id = ${tenantId}
      ${andEquals(fragment("queue"), filter.queue)} ${andEquals(fragment("message_type"), filter.message_type)}
      ${andEquals(fragment("reason"), filter.reason)}
      AND captured_at >= ${from(filter)} AND captured_at < ${to(filter)}`;
}

export const doubtFilter = z.strictObject({
  workflow: name.optional(),
  step: name.optional().meta({ description: "A step's name in the code, of any item and generation." }),
  subject: name.optional(),
  correlation: name.optional(),
  since: moment.optional().meta({ description: "The outcome became unknown at this time or later." }),
  until: moment.optional().meta({ description: "The outcome became unknown before this time." }),
});

/** The tenant's unknown outcomes that match a filter, each as a string with the parts of the effect's key. */
export function doubtMembers({ tenantId }: Operator, filter: z.infer<typeof doubtFilter>): Statement {
  return sql`
    SELECT json_array(e.instance_id, e.step, e.item, e.generation) || '' AS id, e.updated_at AS at
    FROM millrace_inbox e INDEXED BY millrace_inbox_in_doubt CROSS JOIN millrace_instances i ON i.id = e.instance_id
    WHERE e.state = 'in_doubt' AND i.tenant_id = ${tenantId}
      ${andEquals(fragment("workflow"), filter.workflow)} ${andEquals(fragment("step"), filter.step)}
      ${andEquals(fragment("subject"), filter.subject)} ${andEquals(fragment("correlation_id"), filter.correlation)}
      AND e.updated_at >= ${from(filter)} AND e.updated_at < ${to(filter)}`;
}

const from = ({ since }: { since?: string | undefined }) => (since === undefined ? 0 : Date.parse(since));
const to = ({ until }: { until?: string | undefined }) => (until === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(until));

export async function unknownOfInstances(call: BulkCall, filter: { workflow?: string | undefined; cause?: string | undefined }) {
  const { workflow, cause } = filter;
  return [
    ...unlessKnown("workflow", workflow, namesOf(call.catalog).workflows),
    ...(await unlessFound(call, "/v1/instances/causes", cause, (id) => {
      return sql`
        SELECT 1 FROM millrace_instances INDEXED BY millrace_instances_by_cause
        WHERE tenant_id = ${call.by.tenantId} AND cause = ${id} AND status = 'errored' LIMIT 1`;
    })),
  ];
}

export async function unknownOfLetters(
  call: BulkCall,
  filter: { queue?: string | undefined; message_type?: string | undefined; cause?: string | undefined },
) {
  const { queue, message_type, cause } = filter;
  const queues = call.catalog.consumers.map((consumer) => consumer.queue.name);
  return [
    ...unlessKnown("queue", queue, queues),
    ...unlessKnown("message_type", message_type, typesOf(call.catalog)),
    ...(await unlessFound(call, "/v1/dead-letters/causes", cause, (id) => {
      return sql`
        SELECT 1 FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_cause
          WHERE tenant_id = ${call.by.tenantId} AND cause = ${id} LIMIT 1`;
    })),
  ];
}

function unlessKnown(filter: string, name: string | undefined, known: readonly string[]): Issue[] {
  return name === undefined || known.includes(name) ? [] : [unknownName(`filter.${filter}`, name, known)];
}

async function unlessFound({ env }: BulkCall, list: string, id: string | undefined, look: (id: string) => Statement): Promise<Issue[]> {
  if (id === undefined || (await query(env.DB, look(id))).length > 0) return [];
  return [{ path: "filter.cause", message: `is the id of no current cause: list causes with GET ${list}` }];
}

function typesOf(catalog: Catalog): string[] {
  const commands = catalog.workflows.map(({ on }) => on.type);
  return [...new Set([...commands, ...namesOf(catalog).events])];
}
