import { MillraceError } from "millrace";
import { PORTAL_ID } from "./credentials.ts";

/** A deployment's settings of its CRM account. */
export interface CrmAccountVars {
  CRM_URL?: string;
  /**
   * The tenants with contacts in the account, separated by commas. Required for a real account; by default the embedded CRM serves
   * every tenant.
   */
  CRM_TENANTS?: string;
  /**
   * The account's id, which its notices contain. Each id of the embedded CRM is a separate account; for the embedded CRM the id has a
   * default.
   */
  CRM_ACCOUNT?: string;
}

/**
 * Refuses a tenant without contacts in the CRM's account, because the tenant would read and write those of others. Errors:
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
 * The account's name in contacts' links: an account of the embedded CRM differs from a real one of the same id. Errors: `config_invalid`.
 */
export function linkAccount(vars: CrmAccountVars): string {
  return isEmbedded(vars) ? `embedded/${crmAccount(vars)}` : crmAccount(vars);
}

function isEmbedded({ CRM_URL: url }: CrmAccountVars): boolean {
  return !url || url.startsWith("embedded:");
}
