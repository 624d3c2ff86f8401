import type { Issue } from "../../contract/errors.ts";
import { unknownName } from "../../contract/known-fields.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { query } from "../../store/d1/retry.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { namesOf } from "../../topology/names.ts";

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
