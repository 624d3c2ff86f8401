import { ids, query, type Statement, sql } from "millrace";

type Keyed = Pick<Cloudflare.Env, "MILLRACE_KEY">;

const BEGINS = "forgotten-";

/**
 * Computes the pseudonym of a forgotten contact: an HMAC of the contact's id. The same id always has the same pseudonym. Errors:
 * `config_invalid` if MILLRACE_KEY is not set.
 */
export function pseudonymOf({ MILLRACE_KEY }: Keyed, tenantId: string, contactId: string): string {
  return BEGINS + ids.signed(MILLRACE_KEY, "contact", tenantId, contactId);
}

/** True for the pseudonym of a forgotten contact. */
export function isPseudonym(name: string): boolean {
  return name.length === BEGINS.length + 32 && name.startsWith(BEGINS);
}

/** Returns those of the given contacts that were forgotten, with their pseudonyms. The function makes one query for all contacts. */
export async function forgottenAmong(
  env: Keyed & Pick<Cloudflare.Env, "DB">,
  tenantId: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const names = new Map(ids.map((id) => [pseudonymOf(env, tenantId, id), id]));
  const found = await query<{ pseudonym: string }>(
    env.DB,
    sql`
      SELECT f.pseudonym FROM json_each(${JSON.stringify([...names.keys()])}) n
      CROSS JOIN forgotten f ON f.tenant_id = ${tenantId} AND f.pseudonym = n.value`,
  );
  return new Map(found.map(({ pseudonym }) => [names.get(pseudonym) ?? "", pseudonym]));
}

/** Records that the given contacts are forgotten, so that later writes cannot create these contacts again. */
export function markForgotten(tenantId: string, pseudonyms: readonly string[]): Statement {
  return sql`
    INSERT INTO forgotten (tenant_id, pseudonym, forgotten_at)
    SELECT ${tenantId}, value, ${sql.now} FROM json_each(${JSON.stringify(pseudonyms)}) WHERE true ON CONFLICT DO NOTHING`;
}

/** True if the contact with this pseudonym was forgotten. */
export async function isForgotten(db: D1Database, tenantId: string, pseudonym: string): Promise<boolean> {
  return (await query(db, sql`SELECT 1 FROM forgotten WHERE tenant_id = ${tenantId} AND pseudonym = ${pseudonym}`)).length > 0;
}

/** The error text for a forgotten contact. */
export const FORGOTTEN = "is an erased contact, which cannot be created again: give the person a new id";
