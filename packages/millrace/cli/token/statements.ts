import { randomUUID } from "node:crypto";
import type { Statement } from "millrace";
import { newToken } from "../../src/contract/token.ts";
import { type Action, auditDone } from "../../src/store/actions.ts";
import { placeTenants, selectCells } from "../../src/store/cells.ts";
import { grantToken, removeFamily, removeToken, selectFamilyOwner, selectOwner, selectTokensOf } from "../../src/store/tokens.ts";
import type { Mint, Revoke } from "./request.ts";

const DAY_MS = 86_400_000;
const MOST_LISTED = 1000;

/** Creates a new token, and the SQL that stores the token's hash and the audit row. */
export function mintStatements({ tenant, actor, scopes, days, reason }: Mint, by: string, cell = 1): { token: string; sql: string } {
  const { id, hash, text: token } = newToken(cell);
  const granted = grantToken({ id, hash, tenantId: tenant, actor, scopes }, days * DAY_MS);
  const audited = auditDone({ tenantId: tenant, actor: by }, action("mint", id, reason, { actor, scopes, days }));
  return { token, sql: asText(granted, audited) };
}

/** SQL that chooses the cell of a tenant if none is stored, and SQL that reads the cell. `vars`: the variables of the Worker. */
export function cellStatements(tenant: string, vars: object): { place: string; read: string } {
  return { place: asText(placeTenants([tenant], vars)), read: asText(selectCells([tenant])) };
}

export function listStatement(tenant: string): string {
  return asText(selectTokensOf(tenant, MOST_LISTED));
}

/**
 * SQL that reads the tenant and the actor of a token. With `descendants`, the SQL also finds a token that is deleted but still has
 * descendants.
 */
export function findStatement({ id, descendants }: Pick<Revoke, "id" | "descendants">): string {
  return asText(descendants ? selectFamilyOwner(id) : selectOwner(id));
}

/** SQL that revokes a token, optionally with its descendants, and writes the audit row. */
export function revokeStatements(
  id: string,
  { tenant, actor }: { tenant: string; actor: string | null },
  by: string,
  { reason, descendants }: Pick<Revoke, "reason" | "descendants">,
): string {
  const detail = { actor, ...(descendants && { descendants }) };
  const remove = descendants ? removeFamily(tenant, id) : removeToken(tenant, id);
  return asText(remove, auditDone({ tenantId: tenant, actor: by }, action("revoke", id, reason, detail)));
}

function action(verb: "mint" | "revoke", target: string, reason: string, detail: Record<string, unknown>): Action {
  return { id: randomUUID(), verb, target, instanceId: null, reason: reason.slice(0, 500), detail };
}

/** Converts statements to one SQL string without parameters, for wrangler. */
export function asText(...statements: readonly Statement[]): string {
  return statements
    .map(({ text, params }) => text.trim().replaceAll(/\?(\d+)/g, (_, place) => literal(params[Number(place) - 1])))
    .join("; ");
}

/** Converts a string to a hex literal, so that no shell or parser interprets a quote or semicolon in the string. */
function literal(value: Statement["params"][number] | undefined): string {
  if (typeof value !== "string") return String(value ?? "NULL");
  return PLAIN.test(value) ? `'${value}'` : `CAST(x'${Buffer.from(value, "utf8").toString("hex")}' AS TEXT)`;
}

const PLAIN = /^[a-z0-9_ ]*$/;
