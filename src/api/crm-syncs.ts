import { texts } from "millrace";
import { HttpRefusal, pages, times } from "millrace/http";
import * as z from "zod";
import { type Failure, listFailures } from "../systems/crm/failures.ts";
import { findAcceptedSync, findSync, listSyncs, SYNC_STATES, type Sync } from "../systems/crm/sync.ts";
import { operation } from "./operation.ts";

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

/** The query parameters of a list in the order of contacts. */
export const byContact = pages.nameQuery(100, 1000);

export const crmSyncs = [
  operation("get", "/v1/crm/syncs", "listCrmSyncs", "crm-syncs list", {
    summary: "List CRM syncs, newest first",
    description:
      "Start a sync with the command `contacts.sync`. A sync that failed for some contacts is complete; the next sync retries them.",
    query: pages.query,
    answer: ["A page of syncs", pages.schema(SyncSchema)],
    run: async ({ env, by, query }) => pages.of(await listSyncs(env.DB, by.tenantId, query), syncView),
  }),
  operation("get", "/v1/crm/syncs/{id}", "getCrmSync", "crm-syncs show", {
    summary: "Get a CRM sync with its progress",
    description:
      "A sync is available after its command is accepted, and in the list from its first chunk on. Until then, read the instance of a command with an explicit `Idempotency-Key`.",
    answer: ["The sync", SyncSchema],
    problems: ["sync_not_found"],
    run: async ({ env, by, param }) => syncView(await syncOf(env.DB, by.tenantId, param.id)),
  }),
  operation("get", "/v1/crm/syncs/{id}/failures", "listCrmSyncFailures", "crm-syncs failures", {
    summary: "List the failed contacts of a sync",
    description: "Returns each refused contact with the reason of the CRM.",
    query: byContact,
    answer: ["A page of failures, in the order of the contacts' ids", pages.schema(FailureSchema)],
    problems: ["sync_not_found"],
    async run({ env, by: { tenantId }, param, query: { cursor = "", limit } }) {
      const { syncId } = await syncOf(env.DB, tenantId, param.id);
      const found = await listFailures(env.DB, { tenantId, syncId }, cursor, limit + 1);
      return pages.byName(found, limit, ({ contactId }) => contactId, failureView);
    },
  }),
];

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
