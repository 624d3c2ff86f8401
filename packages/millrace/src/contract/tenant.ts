import { MillraceError } from "./errors.ts";
import { shortened } from "./text.ts";

const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** Whether a text can be a tenant's name: 1 to 64 lower case letters, digits, dashes and underscores. */
export function isTenant(text: string): boolean {
  return TENANT.test(text);
}

/** The name of a tenant. Errors: `invalid_payload` for a text that no tenant can have: what is kept under it nobody's token would reach. */
export function checkedTenant(tenant: string): string {
  if (isTenant(tenant)) return tenant;
  const message = `"${shortened(tenant, 80)}" is not a tenant: use up to 64 lower case letters, digits, - or _`;
  throw new MillraceError("invalid_payload", `${message}. Nothing was stored.`, { issues: [{ path: "tenant", message }] });
}
