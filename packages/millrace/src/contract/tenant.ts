import { MillraceError } from "./errors.ts";
import { shortened } from "./text.ts";

const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/;

export function isTenant(text: string): boolean {
  return TENANT.test(text);
}

/** Validates a tenant. Errors: `invalid_payload` for an invalid tenant, because no token could read its data. */
export function checkedTenant(tenant: string): string {
  if (isTenant(tenant)) return tenant;
  const message = `"${shortened(tenant, 80)}" is not a tenant: use up to 64 lower case letters, digits, - or _`;
  throw new MillraceError("invalid_payload", `${message}. Nothing was stored.`, { issues: [{ path: "tenant", message }] });
}
