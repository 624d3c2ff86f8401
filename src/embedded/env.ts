import { EMBEDDED_TOKEN } from "../providers/credentials.ts";
import type { CrmVars, EmbeddedCrmStore } from "./crm/store.ts";
import type { EmbeddedLedger } from "./ledger.ts";

/** The bindings and vars of the embedded programs. */
export interface EmbeddedEnv extends CrmVars {
  EMBEDDED_LEDGER: DurableObjectNamespace<EmbeddedLedger>;
  EMBEDDED_CRM_STORE: DurableObjectNamespace<EmbeddedCrmStore>;
  /** Published pages, keyed by path. */
  PAGES: R2Bucket;
  /** Where people reach this Worker. Default: `http://localhost:8787`. */
  PUBLIC_URL?: string;
  SEARCH_TOKEN?: string;
  TEXT_TOKEN?: string;
  PAGES_TOKEN?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
  /** Where the embedded CRM sends messages about changes. Default: this Worker, for the tenant of a local engine. */
  CRM_WEBHOOK_URL?: string;
  /** What the CRM's messages are signed with. For the embedded one it is derived from MILLRACE_KEY by default. */
  CRM_WEBHOOK_SECRET?: string;
}

/** The one ledger of this deployment. */
export function ledgerOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedLedger> {
  return env.EMBEDDED_LEDGER.getByName("local");
}

/** The CRM of this deployment: each account that it is given is one of its own, and empty at first. */
export function crmStoreOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedCrmStore> {
  return env.EMBEDDED_CRM_STORE.getByName(env.CRM_ACCOUNT ? `account ${env.CRM_ACCOUNT}` : "local");
}

/** True when the request carries the token this deployment was given. */
export function hasBearer(request: { header(name: string): string | undefined }, token: string | undefined): boolean {
  return request.header("authorization") === `Bearer ${token || EMBEDDED_TOKEN}`;
}
