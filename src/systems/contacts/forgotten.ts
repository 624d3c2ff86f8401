import { now, query, type Statement, signed, sql } from "millrace";

type Keyed = Pick<Cloudflare.Env, "MILLRACE_KEY">;

const BEGINS = "forgotten-";

/** What stands for a contact that was forgotten: an HMAC of its id, the same each time. Errors: `config_invalid` without MILLRACE_KEY. */
export function pseudonymOf({ MILLRACE_KEY }: Keyed, tenantId: string, contactId: string): string {
  return BEGINS + signed(MILLRACE_KEY, "contact", tenantId, contactId);
}

/** Whether a name stands for a contact that was forgotten. */
export function isPseudonym(name: string): boolean {
  return name.length === BEGINS.length + 32 && name.startsWith(BEGINS);
}

/** Which of these contacts were forgotten, each with what stands for it. One look for all of them. */
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

/** Remembers that these contacts were forgotten, from this write on. */
export function markForgotten(tenantId: string, pseudonyms: readonly string[]): Statement {
  return sql`
    INSERT INTO forgotten (tenant_id, pseudonym, forgotten_at)
    SELECT ${tenantId}, value, ${now} FROM json_each(${JSON.stringify(pseudonyms)}) WHERE true ON CONFLICT DO NOTHING`;
}

/** Whether the contact that a pseudonym stands for was forgotten. */
export async function isForgotten(db: D1Database, tenantId: string, pseudonym: string): Promise<boolean> {
  return (await query(db, sql`SELECT 1 FROM forgotten WHERE tenant_id = ${tenantId} AND pseudonym = ${pseudonym}`)).length > 0;
}

/** What is said of a contact that was forgotten. */
export const FORGOTTEN = "is a contact that was forgotten: nothing brings it back. A person who comes again is given a new id";
