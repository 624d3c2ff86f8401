import { EMBEDDED_TOKEN } from "../providers/credentials.ts";
import type { CrmVars, EmbeddedCrmStore } from "./crm/store.ts";
import type { EmbeddedLedger } from "./ledger.ts";

/** The bindings and vars of the embedded programs. */
export interface EmbeddedEnv extends CrmVars {
  EMBEDDED_LEDGER: DurableObjectNamespace<EmbeddedLedger>;
  EMBEDDED_CRM_STORE: DurableObjectNamespace<EmbeddedCrmStore>;
  /** The bucket of published pages, keyed by path. */
  PAGES: R2Bucket;
  /** The public URL of this Worker. Default: `http://localhost:8787`. */
  PUBLIC_URL?: string;
  SEARCH_TOKEN?: string;
  TEXT_TOKEN?: string;
  PAGES_TOKEN?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
  /** The URL to which the embedded CRM sends messages about changes. Default: the route of this Worker for the tenant of a local engine. */
  CRM_WEBHOOK_URL?: string;
  /** The key that signs the CRM's messages. The default for the embedded CRM is derived from MILLRACE_KEY. */
  CRM_WEBHOOK_SECRET?: string;
}

/** Returns the Durable Object with the ledger of this deployment's embedded upstreams. */
export function ledgerOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedLedger> {
  return env.EMBEDDED_LEDGER.getByName("local");
}

/**
 * Returns the Durable Object with the embedded CRM of this deployment. Each CRM account has its own Durable Object, which is empty at
 * first.
 */
export function crmStoreOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedCrmStore> {
  return env.EMBEDDED_CRM_STORE.getByName(env.CRM_ACCOUNT ? `account ${env.CRM_ACCOUNT}` : "local");
}

/** True if the request contains the given token. Without a given token, the default token of the embedded programs applies. */
export function hasBearer(request: { header(name: string): string | undefined }, token: string | undefined): boolean {
  return request.header("authorization") === `Bearer ${token || EMBEDDED_TOKEN}`;
}
