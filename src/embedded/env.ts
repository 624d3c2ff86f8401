import { EMBEDDED_TOKEN } from "../providers/credentials.ts";
import type { CrmVars, EmbeddedCrmStore } from "./crm/store.ts";
import type { EmbeddedLedger } from "./ledger.ts";

/** The bindings and vars of the embedded programs. */
export interface EmbeddedEnv extends CrmVars {
  EMBEDDED_LEDGER: DurableObjectNamespace<EmbeddedLedger>;
  EMBEDDED_CRM_STORE: DurableObjectNamespace<EmbeddedCrmStore>;
  /** Published pages, keyed by path. */
  PAGES: R2Bucket;
  /** The public URL of this Worker. Default: `http://localhost:8787`. */
  PUBLIC_URL?: string;
  SEARCH_TOKEN?: string;
  TEXT_TOKEN?: string;
  PAGES_TOKEN?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
  /** The target of the embedded CRM's messages about changes. Default: this Worker, for the tenant of a local engine. */
  CRM_WEBHOOK_URL?: string;
  /** The key of the CRM's signatures. For the embedded CRM the default is derived from MILLRACE_KEY. */
  CRM_WEBHOOK_SECRET?: string;
}

/** The only ledger of this deployment. */
export function ledgerOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedLedger> {
  return env.EMBEDDED_LEDGER.getByName("local");
}

/** The CRM of this deployment. Each account has its own CRM, which starts empty. */
export function crmStoreOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedCrmStore> {
  return env.EMBEDDED_CRM_STORE.getByName(env.CRM_ACCOUNT ? `account ${env.CRM_ACCOUNT}` : "local");
}

/** True if the request has the token of this deployment. */
export function hasBearer(request: { header(name: string): string | undefined }, token: string | undefined): boolean {
  return request.header("authorization") === `Bearer ${token || EMBEDDED_TOKEN}`;
}
