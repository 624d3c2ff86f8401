import { texts } from "millrace";
import { answers, createRoute, HttpRefusal, needs, pages, Routes, times } from "millrace/http";
import * as z from "zod";
import { type Failure, listFailures } from "../systems/crm/failures.ts";
import { findAcceptedSync, findSync, listSyncs, SYNC_STATES, type Sync } from "../systems/crm/sync.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const SyncSchema = z
  .object({
    sync_id: z.string(),
    scope: z.enum(["changed", "all"]),
    state: z
      .enum(SYNC_STATES)
      .meta({ description: "`errored` while the instance of the sync has failed: fix the cause in `error`, then retry the instance." }),
    contacts: z.object({
      done: z.int().meta({ description: "The number of contacts that the CRM accepted." }),
      failed: z.int().meta({ description: "The number of contacts that the CRM refused, which `/failures` lists one by one." }),
      waiting: z
        .int()
        .meta({ description: "The number of contacts that the CRM refused temporarily; they are retried before the sync ends." }),
      skipped: z.int().meta({ description: "The number of contacts without a change to send." }),
      merged: z.int().meta({ description: "The number of contacts that were merged into another contact, which has the record." }),
      taken: z.int().meta({ description: "The number of contacts with a user's change that was copied from the CRM." }),
    }),
    chunks: z.int().meta({ description: "The number of steps of the sync." }),
    instance_id: z.string(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    started_at: times.timestamp,
    updated_at: times.timestamp,
    ended_at: times.timestamp.nullable(),
  })
  .meta({ id: "CrmSync" });

const FailureSchema = z
  .object({
    contact_id: z.string(),
    state: z.enum(["waiting", "failed"]),
    category: z.string().meta({ description: "The CRM's error category, such as VALIDATION_ERROR." }),
    message: z.string(),
    correlation_id: z.string().nullable().meta({ description: "The id of the call, for the CRM's support." }),
    tries: z.int(),
    updated_at: times.timestamp,
  })
  .meta({ id: "CrmFailure" });

const params = z.object({ id: z.string() });

/** The query parameters of a list in the order of contacts. */
export const byContact = pages.nameQuery(100, 1000);

const list = createRoute({
  method: "get",
  path: "/v1/crm/syncs",
  operationId: "listCrmSyncs",
  command: "crm-syncs list",
  summary: "List CRM syncs, newest first",
  description:
    "Start a sync with the command `contacts.sync`. A sync that failed for some contacts is complete; the next sync retries them.",
  ...needs("read"),
  request: { query: z.strictObject(pages.query) },
  responses: { 200: answers("A page of syncs", pages.schema(SyncSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const show = createRoute({
  method: "get",
  path: "/v1/crm/syncs/{id}",
  operationId: "getCrmSync",
  command: "crm-syncs show",
  summary: "Get a CRM sync with its progress",
  description:
    "A sync is available after its command is accepted, and in the list from its first chunk on. Until then, read the instance of a command with an explicit `Idempotency-Key`.",
  ...needs("read"),
  request: { params },
  responses: { 200: answers("The sync", SyncSchema), ...problems("unauthorized", "forbidden", "sync_not_found") },
});

const failures = createRoute({
  method: "get",
  path: "/v1/crm/syncs/{id}/failures",
  operationId: "listCrmSyncFailures",
  command: "crm-syncs failures",
  summary: "List the failed contacts of a sync",
  description: "Returns each refused contact with the reason of the CRM.",
  ...needs("read"),
  request: { params, query: z.strictObject(byContact) },
  responses: {
    200: answers("A page of failures, in the order of the contacts' ids", pages.schema(FailureSchema)),
    ...problems("unauthorized", "forbidden", "sync_not_found", "invalid_payload"),
  },
});

export function crmSyncs() {
  return new Routes<ApiEnv>()
    .openapi(list, async (context) => {
      const found = await listSyncs(context.env.DB, context.var.caller.tenantId, context.req.valid("query"));
      return context.json(pages.of(found, syncView), 200);
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => {
      const { id } = req.valid("param");
      return json(syncView(await syncOf(env.DB, caller.tenantId, id)), 200);
    })
    .openapi(failures, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit } = req.valid("query");
      const { syncId } = await syncOf(env.DB, caller.tenantId, req.valid("param").id);
      const found = await listFailures(env.DB, { tenantId: caller.tenantId, syncId }, cursor, limit + 1);
      return json(
        pages.byName(found, limit, ({ contactId }) => contactId, failureView),
        200,
      );
    });
}

async function syncOf(db: D1Database, tenantId: string, id: string): Promise<Sync> {
  const sync = (await findSync(db, tenantId, id)) ?? (await findAcceptedSync(db, tenantId, id));
  if (!sync) throw new HttpRefusal("sync_not_found", `There is no sync ${texts.beginning(id, 64)}. List them with GET /v1/crm/syncs.`);
  return sync;
}

function syncView({
  syncId,
  scope,
  state,
  chunks,
  instanceId,
  error,
  startedAt,
  updatedAt,
  endedAt,
  ...counts
}: Sync): z.infer<typeof SyncSchema> {
  const { done, failed, waiting, skipped, merged, taken } = counts;
  return {
    sync_id: syncId,
    scope,
    state,
    contacts: { done, failed, waiting, skipped, merged, taken },
    chunks,
    instance_id: instanceId,
    error: error && { code: error.code, message: error.message },
    started_at: times.iso(startedAt),
    updated_at: times.iso(updatedAt),
    ended_at: times.isoOrNull(endedAt),
  };
}

function failureView({ contactId, correlationId, updatedAt, ...rest }: Failure): z.infer<typeof FailureSchema> {
  const { state, category, message, tries } = rest;
  return { contact_id: contactId, state, category, message, correlation_id: correlationId, tries, updated_at: times.iso(updatedAt) };
}
