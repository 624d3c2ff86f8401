import { query, type Statement, sql } from "millrace";
import type { Operator } from "millrace/operate";

export type EndpointState = "enabled" | "disabled" | "deleted";

/** The settings of an endpoint that an operator chooses. */
export interface EndpointConfig {
  url: string;
  fact_types: readonly string[];
  description: string;
  enabled: boolean;
}

/** One version of an endpoint. */
export interface Endpoint {
  id: string;
  version: number;
  url: string;
  fact_types: string[];
  description: string;
  state: EndpointState;
  /** The reason why the endpoint was disabled automatically. */
  reason: string | null;
  created_at: number;
  changed_at: number;
  changed_by: string;
}

/** The tenant of an endpoint, and the operator who changes the endpoint. */
export type By = Operator;

/**
 * Maximum number of endpoints of one tenant, not counting deleted ones. This limit is also the maximum number of deliveries for one fact.
 */
export const MAX_ENDPOINTS = 100;
/**
 * Maximum number of stored versions of a tenant's endpoints, including replaced and deleted versions. The limit allows about twenty changes
 * a day.
 */
export const MAX_VERSIONS = 10_000;

const COLUMNS = sql.fragment("endpoint_id AS id, version, url, fact_types, description, state, reason, created_at, changed_at, changed_by");
const INSERT = sql.fragment(`
    INSERT INTO webhook_versions (tenant_id, endpoint_id, version, url, fact_types, description, state, reason,
      created_at, changed_at, changed_by)`);

/**
 * Inserts the first version of a new endpoint. Returns the version, or no row if the tenant has the maximum number of endpoints or
 * versions, or if the id is in use.
 */
export function insertEndpoint(by: By, id: string, config: EndpointConfig): Statement {
  return sql`
    ${INSERT}
    SELECT ${by.tenantId}, ${id}, 1, ${config.url}, ${JSON.stringify(config.fact_types)}, ${config.description}, ${stateOf(config)}, NULL,
      ${sql.now}, ${sql.now}, ${by.actor}
    WHERE ${MAX_ENDPOINTS} >
        (SELECT count(*) FROM webhook_versions WHERE tenant_id = ${by.tenantId} AND replaced_at IS NULL AND state <> 'deleted')
      AND NOT EXISTS (SELECT 1 FROM webhook_versions WHERE tenant_id = ${by.tenantId} AND endpoint_id = ${id})
      AND ${hasRoom(by.tenantId)}
    RETURNING version`;
}

/** The SQL condition that a tenant may have one more version. */
export function hasRoom(tenantId: string): Statement {
  return sql`(SELECT count(*) FROM webhook_versions WHERE tenant_id = ${tenantId}) < ${MAX_VERSIONS}`;
}

/**
 * Marks the endpoint's current version as replaced, if this is the expected version, the endpoint is not deleted, and `so` is true. The
 * statement runs before the insert of the next version.
 */
function replace(tenantId: string, id: string, expected: number, so: Statement): Statement {
  return sql`
    UPDATE webhook_versions SET replaced_at = ${sql.now}
    WHERE tenant_id = ${tenantId}
      AND endpoint_id = ${id} AND version = ${expected} AND replaced_at IS NULL AND state <> 'deleted' AND ${so}`;
}

type Change = Partial<EndpointConfig> & { state: EndpointState; reason?: string };

/** Inserts the version that follows the expected version. The statement inserts and returns no row if another change was made first. */
function insertNext(by: By, id: string, expected: number, change: Change): Statement {
  const kept = (value: string | number | null | undefined, column: string) => (value === undefined ? sql.fragment(column) : value);
  const types = change.fact_types && JSON.stringify(change.fact_types);
  return sql`
    ${INSERT}
    SELECT tenant_id, endpoint_id, version + 1, ${kept(change.url, "url")}, ${kept(types, "fact_types")},
      ${kept(change.description, "description")}, ${change.state}, ${change.reason ?? null}, created_at, ${sql.now}, ${by.actor}
    FROM webhook_versions v
    WHERE tenant_id = ${by.tenantId} AND endpoint_id = ${id} AND version = ${expected} AND replaced_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM webhook_versions n
        WHERE n.tenant_id = v.tenant_id AND n.endpoint_id = v.endpoint_id AND n.version > v.version)
    RETURNING version`;
}

/**
 * The statements that change an endpoint, to be committed as one batch. The last statement returns the new version. It returns no row if
 * the expected version is no longer current, or the tenant has the maximum number of versions. A deletion ignores this maximum, because
 * each endpoint is deleted at most once.
 */
export function changeEndpoint(by: By, id: string, expected: number, change: Change): [Statement, Statement] {
  const room = change.state === "deleted" ? sql`true` : hasRoom(by.tenantId);
  return [replace(by.tenantId, id, expected, room), insertNext(by, id, expected, change)];
}

/**
 * Disables an endpoint whose receiver wants no further requests, if the endpoint's version is unchanged. The maximum number of versions
 * does not apply, because this change happens at most once after each enabling.
 */
export function disableGone(tenantId: string, id: string, version: number, reason: string): [Statement, Statement] {
  const by = { tenantId, actor: "millrace" };
  return [replace(tenantId, id, version, sql`state = 'enabled'`), insertNext(by, id, version, { state: "disabled", reason })];
}

export function stateOf({ enabled }: Pick<EndpointConfig, "enabled">): EndpointState {
  return enabled ? "enabled" : "disabled";
}

/** Reads the current version of an endpoint; undefined if the tenant has no endpoint with this id. */
export async function getEndpoint(db: D1Database, tenantId: string, id: string): Promise<Endpoint | undefined> {
  const [row] = await query<Row>(
    db,
    sql`SELECT ${COLUMNS} FROM webhook_versions WHERE tenant_id = ${tenantId} AND endpoint_id = ${id} AND replaced_at IS NULL`,
  );
  return row && asEndpoint(row);
}

/** Lists the endpoints of a tenant before a position, newest first. Deleted endpoints are listed only if the caller requests it. */
export async function listEndpoints(
  db: D1Database,
  tenantId: string,
  { deleted, before, limit }: { deleted: boolean; before: { at: number; id: string }; limit: number },
): Promise<Endpoint[]> {
  const rows = await query<Row>(
    db,
    sql`
      SELECT ${COLUMNS} FROM webhook_versions
      WHERE tenant_id = ${tenantId} AND replaced_at IS NULL AND (state <> 'deleted' OR ${deleted ? 1 : 0})
        AND (created_at, endpoint_id) < (${before.at}, ${before.id})
      ORDER BY created_at DESC, endpoint_id DESC LIMIT ${limit}`,
  );
  return rows.map(asEndpoint);
}

/** The fields of a version that are compared with facts. */
export type Version = Pick<Endpoint, "id" | "version" | "fact_types" | "state" | "created_at" | "changed_at">;

/**
 * Reads the versions of a tenant's endpoints that were current at a given time or later, to match facts. A tenant has at most
 * `MAX_VERSIONS` versions. Only the fields that matching needs are read, because the endpoint versions of all tenants are in memory.
 */
export function versionsSince(db: D1Database, tenantId: string, at: number): Promise<Version[]> {
  return versions(db, sql`tenant_id = ${tenantId} AND (replaced_at IS NULL OR replaced_at >= ${at})`);
}

/** Reads all stored versions of one endpoint. The current version is last. */
export function versionsOf(db: D1Database, tenantId: string, id: string): Promise<Version[]> {
  return versions(db, sql`tenant_id = ${tenantId} AND endpoint_id = ${id}`);
}

async function versions(db: D1Database, are: Statement): Promise<Version[]> {
  const rows = await query<Omit<Version, "fact_types"> & { fact_types: string }>(
    db,
    sql`
      SELECT endpoint_id AS id, version, fact_types, state, created_at, changed_at FROM webhook_versions
      WHERE ${are} ORDER BY endpoint_id, version`,
  );
  return rows.map((row) => ({ ...row, fact_types: JSON.parse(row.fact_types) as string[] }));
}

type Row = Omit<Endpoint, "fact_types"> & { fact_types: string };

function asEndpoint(row: Row): Endpoint {
  return { ...row, fact_types: JSON.parse(row.fact_types) as string[] };
}
