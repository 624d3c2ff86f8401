import { randomUUID } from "node:crypto";
import { newToken, storedAs } from "../local/token.ts";
import type { Mint } from "./request.ts";

const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/** A new token, and the SQL that makes it good and writes the audit. Only a hash of its secret goes in. */
export function mintStatements({ tenant, actor, scopes, days, reason }: Mint, by: string): { token: string; sql: string } {
  const token = newToken();
  const { id, hash } = storedAs(token);
  const insert = `INSERT INTO tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at)
    VALUES ('${id}', '${hash}', ${text(tenant)}, ${text(actor)}, ${text(scopes.join(" "))}, ${NOW}, ${NOW} + ${days * 86_400_000})`;
  return { token, sql: `${insert}; ${audited(text(tenant), by, "mint", id, reason, { actor, scopes, days })}` };
}

/** SQL that lists a tenant's tokens, newest first. */
export function listStatement(tenant: string): string {
  return `SELECT id, actor, scopes, created_at, expires_at FROM tokens WHERE tenant_id = ${text(tenant)} ORDER BY created_at DESC, id DESC LIMIT 1000`;
}

/** SQL that finds whose a token is. */
export function findStatement(id: string): string {
  return `SELECT tenant_id, actor FROM tokens WHERE id = ${text(id)}`;
}

/** SQL that ends a token, and writes the audit. */
export function revokeStatements(id: string, { tenant, actor }: { tenant: string; actor: string }, by: string, reason: string): string {
  return `DELETE FROM tokens WHERE id = ${text(id)}; ${audited(text(tenant), by, "revoke", id, reason, { actor })}`;
}

function audited(tenant: string, by: string, verb: "mint" | "revoke", target: string, reason: string, detail: object): string {
  const values = [text(randomUUID()), tenant, text(by), text(verb), text(target), text(reason.slice(0, 500)), text(JSON.stringify(detail))];
  return `INSERT INTO actions (id, tenant_id, actor, verb, target, reason, detail, result, at, applied_at)
    VALUES (${values.join(", ")}, 'applied', ${NOW}, ${NOW})`;
}

/** A text as SQL, without a quote or semicolon that anybody on the way could take for theirs. */
function text(value: string): string {
  return `CAST(x'${Buffer.from(value, "utf8").toString("hex")}' AS TEXT)`;
}
