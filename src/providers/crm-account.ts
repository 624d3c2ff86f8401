import { MillraceError } from "millrace";
import { PORTAL_ID } from "./credentials.ts";

/** A deployment's settings for the CRM account. */
export interface CrmAccountVars {
  CRM_URL?: string;
  /**
   * The tenants with contacts in the account, separated by commas. The variable is required for a real account. Without this variable the
   * embedded CRM serves every tenant.
   */
  CRM_TENANTS?: string;
  /**
   * The account's id, which the CRM's webhook requests contain. Each id selects a separate account of the embedded CRM. Only the embedded
   * CRM has a default id.
   */
  CRM_ACCOUNT?: string;
}

/**
 * Refuses a tenant without contacts in the CRM's account, because the tenant would read and write the contacts of other tenants. Errors:
 * `config_invalid`.
 */
export function assertHasCrm(vars: CrmAccountVars, tenantId: string): void {
  if (!vars.CRM_TENANTS && isEmbedded(vars)) return;
  const named = (vars.CRM_TENANTS ?? "").split(",").map((name) => name.trim());
  if (named.includes(tenantId)) return;
  throw new MillraceError(
    "config_invalid",
    `The CRM's account holds no contacts of the tenant ${tenantId}. If it does, name the tenant in the variable CRM_TENANTS.`,
  );
}

/** Returns the id of the CRM account of this deployment. Errors: `config_invalid` if the variable is not set. */
export function crmAccount(vars: CrmAccountVars): string {
  if (vars.CRM_ACCOUNT) return vars.CRM_ACCOUNT;
  if (isEmbedded(vars)) return String(PORTAL_ID);
  throw new MillraceError("config_invalid", "CRM_ACCOUNT is not set. Set it to the id of the CRM's account (HubSpot shows it as Hub ID).");
}

/**
 * Returns the name of the account for the links of contacts. The name distinguishes an account of the embedded CRM from a real account with
 * the same id. Errors: `config_invalid`.
 */
export function linkAccount(vars: CrmAccountVars): string {
  return isEmbedded(vars) ? `embedded/${crmAccount(vars)}` : crmAccount(vars);
}

function isEmbedded({ CRM_URL: url }: CrmAccountVars): boolean {
  return !url || url.startsWith("embedded:");
}
