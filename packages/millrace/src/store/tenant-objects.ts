import { type EngineEnv, hasEngine } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { among, now, type Statement, sql } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { cellOf } from "./cells.ts";
import { query } from "./d1/retry.ts";

/** A Durable Object that may contain a tenant's data, or the R2 object into which the keeper is moving instances of the tenant. */
export interface TenantObject {
  readonly tenantId: string;
  /** The binding of the object's class. */
  readonly binding: "ROOMS" | "PULL_QUEUES" | "ARCHIVE";
  /** The name of the Durable Object, or the number of the R2 object. */
  readonly name: string;
}

/** Notes the R2 object of each tenant before it is written. */
export function noteArchives(tenants: readonly string[], object: number): Statement {
  return sql`INSERT INTO millrace_tenant_objects (tenant_id, binding, name)
    SELECT value, 'ARCHIVE', ${String(object)} FROM json_each(${JSON.stringify(tenants)})`;
}

/** Removes the notes of R2 objects. The statement returns the removed notes. */
export function forgetArchives(tenants: readonly string[]): Statement {
  return sql`DELETE FROM millrace_tenant_objects WHERE tenant_id IN ${among(tenants)} AND binding = 'ARCHIVE'
    RETURNING tenant_id AS "tenantId", name`;
}

/** A move ends or fails within this time, in milliseconds. An older note belongs to a keeper that crashed. */
const MOVE_MS = 3_600_000;

/** Selects a row if the keeper is moving instances of the tenant to R2. The number in a note is the time of the move. */
export function selectArchiving(tenantId: string): Statement {
  return sql`SELECT 1 FROM millrace_tenant_objects WHERE tenant_id = ${tenantId} AND binding = 'ARCHIVE'
    AND CAST(name AS INTEGER) > ${now} - ${MOVE_MS} LIMIT 1`;
}

function registerObject({ tenantId, binding, name }: TenantObject): Statement {
  return sql`INSERT INTO millrace_tenant_objects (tenant_id, binding, name) VALUES (${tenantId}, ${binding},
    ${name}) ON CONFLICT DO NOTHING`;
}

export function selectObjects(tenantId: string, limit: number): Statement {
  return sql`SELECT tenant_id AS "tenantId", binding, name FROM millrace_tenant_objects WHERE tenant_id = ${tenantId} LIMIT ${limit}`;
}

/** Removes an erased Durable Object from the register of a tenant's objects. */
export function unregisterObject({ tenantId, binding, name }: TenantObject): Statement {
  return sql`DELETE FROM millrace_tenant_objects WHERE tenant_id = ${tenantId} AND binding = ${binding} AND name = ${name}`;
}

/**
 * The row that locates a Durable Object when its tenant is deleted. The row is written before the object stores any data. A Durable Object
 * that is used without the engine has no such row.
 */
export class Registration {
  readonly #env: unknown;
  readonly #kv: SyncKvStorage;
  #isThere: boolean;

  constructor(env: unknown, kv: SyncKvStorage) {
    this.#env = env;
    this.#kv = kv;
    this.#isThere = kv.get("registered") === true;
  }

  /**
   * Registers the object with its tenant. Returns undefined if the object is already registered. Errors: `unavailable` if the object could
   * not be registered. An object that is not registered must not store any data.
   */
  make(object: TenantObject): Promise<void> | undefined {
    return this.#isThere || !hasEngine(this.#env) ? undefined : this.#register(this.#env, object);
  }

  async #register(env: EngineEnv, object: TenantObject): Promise<void> {
    try {
      const { DB } = await cellOf(env, object.tenantId);
      await within(query(DB, registerObject(object)));
    } catch (cause) {
      throw new MillraceError("unavailable", "The database did not register this object with its tenant. Nothing was stored: try again.", {
        cause,
        delayMs: 1000,
      });
    }
    this.#kv.put("registered", true);
    this.#isThere = true;
  }
}
