import { MillraceError } from "millrace";
import { PORTAL_ID } from "./credentials.ts";

/** What a deployment says about whose the CRM's account is. */
export interface CrmAccountVars {
  CRM_URL?: string;
  /**
   * The tenants whose contacts the account holds, separated by commas. A real account needs it; the embedded CRM is every tenant's by
   * default.
   */
  CRM_TENANTS?: string;
  /** The account's id, which its notices name. Of the embedded CRM, each id is an account of its own; it has one by default. */
  CRM_ACCOUNT?: string;
}

/** Refuses a tenant whose contacts the CRM's account does not hold: it would read and write another's. Errors: `config_invalid`. */
export function assertHasCrm(vars: CrmAccountVars, tenantId: string): void {
  if (!vars.CRM_TENANTS && isEmbedded(vars)) return;
  const named = (vars.CRM_TENANTS ?? "").split(",").map((name) => name.trim());
  if (named.includes(tenantId)) return;
  throw new MillraceError(
    "config_invalid",
    `The CRM's account holds no contacts of the tenant ${tenantId}. If it does, name the tenant in the variable CRM_TENANTS.`,
  );
}

/** The id of the CRM's account. Errors: `config_invalid` where nobody has said it. */
export function crmAccount(vars: CrmAccountVars): string {
  if (vars.CRM_ACCOUNT) return vars.CRM_ACCOUNT;
  if (isEmbedded(vars)) return String(PORTAL_ID);
  throw new MillraceError("config_invalid", "CRM_ACCOUNT is not set. Set it to the id of the CRM's account (HubSpot shows it as Hub ID).");
}

/**
 * What the links of contacts are noted under: an account of the embedded CRM is none of the real one's, whatever its id. Errors:
 * `config_invalid`.
 */
export function linkAccount(vars: CrmAccountVars): string {
  return isEmbedded(vars) ? `embedded/${crmAccount(vars)}` : crmAccount(vars);
}

function isEmbedded({ CRM_URL: url }: CrmAccountVars): boolean {
  return !url || url.startsWith("embedded:");
}
