import { sql } from "millrace";
import { type Finder, search } from "millrace/operate";

/** Number of rows that are requested of each kind. This is one row more than a response shows. */
const ASKED = 6;
/** Number of newest facts that a search by name or trace scans. An index by name or trace would cost another written row for each fact. */
const LOOKED_BACK = 2000;

const article: Finder = {
  kind: "article",
  look: ({ text, by }) => sql`
    SELECT id, title, brand, keyword, status, created_at FROM articles WHERE id = ${text} AND tenant_id = ${by.tenantId}`,
  read: (row) => ({
    id: String(row.id),
    title: search.titleOf(row.title, row.brand, row.keyword),
    status: String(row.status),
    at: Number(row.created_at),
    url: `/v1/articles/${row.id}`,
    by: "id",
    match: "exact",
  }),
};

const batch: Finder = {
  kind: "batch",
  look: ({ text, by }) => {
    const { from, to } = search.beginningWith(text);
    return sql`
      SELECT batch_id, operation, dataset, state, created_at FROM batches
      WHERE tenant_id = ${by.tenantId} AND batch_id >= ${from} AND batch_id < ${to} ORDER BY batch_id LIMIT ${ASKED}`;
  },
  read: (row, sought) => ({
    id: String(row.batch_id),
    title: search.titleOf(row.operation, row.dataset),
    status: String(row.state),
    at: Number(row.created_at),
    url: `/v1/batches/${encodeURIComponent(String(row.batch_id))}`,
    by: "id",
    match: search.matchOf(row.batch_id, sought),
  }),
};

const webhook: Finder = {
  kind: "webhook",
  look: ({ text, by }) => {
    const { from, to } = search.beginningWith(text);
    return sql`
      SELECT endpoint_id, url, description, state, created_at FROM webhook_versions
      WHERE tenant_id = ${by.tenantId} AND endpoint_id >= ${from} AND endpoint_id < ${to} AND replaced_at IS NULL AND state <> 'deleted'
      ORDER BY endpoint_id LIMIT ${ASKED}`;
  },
  read: (row, sought) => ({
    id: String(row.endpoint_id),
    title: search.titleOf(row.description),
    status: String(row.state),
    at: Number(row.created_at),
    url: `/v1/webhooks/${encodeURIComponent(String(row.endpoint_id))}`,
    by: "id",
    match: search.matchOf(row.endpoint_id, sought),
  }),
};

const delivery: Finder = {
  kind: "webhook_delivery",
  look: ({ text, by }) => sql`
    SELECT id, endpoint_id, fact_id, fact_type, iif(sent_at IS NULL, state, 'sent') AS state, matched_at FROM webhook_deliveries
    WHERE id = ${text.toLowerCase()} AND tenant_id = ${by.tenantId}`,
  read: (row) => ({
    id: String(row.id),
    title: search.titleOf(row.fact_type, row.fact_id),
    status: String(row.state),
    at: Number(row.matched_at),
    url: `/v1/webhooks/${encodeURIComponent(String(row.endpoint_id))}/deliveries/${row.id}`,
    by: "id",
    match: "exact",
  }),
};

const ledger: Finder = {
  kind: "ledger",
  look: ({ text, by }) => {
    const { from, to } = search.beginningWith(text);
    return sql`
      SELECT entity, registered_at FROM ledgers
      WHERE tenant_id = ${by.tenantId} AND entity >= ${from} AND entity < ${to} ORDER BY entity LIMIT ${ASKED}`;
  },
  read: (row, sought) => ({
    id: String(row.entity),
    title: search.titleOf(row.entity),
    status: null,
    at: Number(row.registered_at),
    url: `/v1/ledgers/${encodeURIComponent(String(row.entity))}`,
    by: "entity",
    match: search.matchOf(row.entity, sought),
  }),
};

/** Finds facts by name or trace among the newest facts. */
const fact: Finder = {
  kind: "fact",
  look: ({ text, by }) => sql`
    SELECT fact_id, entity, sequence, type, subtype, recorded_at FROM (
      SELECT * FROM facts INDEXED BY facts_by_time WHERE tenant_id = ${by.tenantId} ORDER BY recorded_at DESC LIMIT ${LOOKED_BACK})
    WHERE fact_id = ${text} OR trace_id = ${text} LIMIT ${ASKED}`,
  read: (row, { text }) => ({
    id: String(row.fact_id),
    title: search.titleOf(row.type, row.subtype, row.entity),
    status: null,
    at: Number(row.recorded_at),
    url: `/v1/facts?entity=${encodeURIComponent(String(row.entity))}`,
    by: row.fact_id === text ? "id" : "trace_id",
    match: "exact",
  }),
};

const contact: Finder = {
  kind: "contact",
  look: ({ text, by }) => {
    const { from, to } = search.beginningWith(text);
    return sql`
      SELECT contact_id, updated_at FROM contacts
      WHERE tenant_id = ${by.tenantId} AND contact_id >= ${from} AND contact_id < ${to} ORDER BY contact_id LIMIT ${ASKED}`;
  },
  read: (row, sought) => ({
    id: String(row.contact_id),
    title: search.titleOf(row.contact_id),
    status: null,
    at: Number(row.updated_at),
    url: `/v1/contacts/${encodeURIComponent(String(row.contact_id))}`,
    by: "id",
    match: search.matchOf(row.contact_id, sought),
  }),
};

const sync: Finder = {
  kind: "crm_sync",
  look: ({ text, by }) => {
    const { from, to } = search.beginningWith(text);
    return sql`
      SELECT sync_id, scope, state, started_at FROM crm_syncs
      WHERE tenant_id = ${by.tenantId} AND sync_id >= ${from} AND sync_id < ${to} ORDER BY sync_id LIMIT ${ASKED}`;
  },
  read: (row, sought) => ({
    id: String(row.sync_id),
    title: search.titleOf(row.sync_id, row.scope),
    status: String(row.state),
    at: Number(row.started_at),
    url: `/v1/crm/syncs/${encodeURIComponent(String(row.sync_id))}`,
    by: "id",
    match: search.matchOf(row.sync_id, sought),
  }),
};

/** The app's own searches for GET /v1/search, in addition to the engine's. */
export const finders: readonly Finder[] = [article, batch, webhook, delivery, ledger, fact, contact, sync];
