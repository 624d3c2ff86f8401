import { EMBEDDED_TOKEN } from "./credentials.ts";
import type { EmbeddedLedger } from "./ledger.ts";

/** The bindings and vars of the embedded programs. */
export interface EmbeddedEnv {
  EMBEDDED_LEDGER: DurableObjectNamespace<EmbeddedLedger>;
  /** Published pages, keyed by path. */
  PAGES: R2Bucket;
  /** Where people reach this Worker. Default: `http://localhost:8787`. */
  PUBLIC_URL?: string;
  SEARCH_TOKEN?: string;
  TEXT_TOKEN?: string;
  PAGES_TOKEN?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
}

/** The one ledger of this deployment. */
export function ledgerOf(env: EmbeddedEnv): DurableObjectStub<EmbeddedLedger> {
  return env.EMBEDDED_LEDGER.getByName("local");
}

/** True when the request carries the token this deployment was given. */
export function hasBearer(request: { header(name: string): string | undefined }, token: string | undefined): boolean {
  return request.header("authorization") === `Bearer ${token || EMBEDDED_TOKEN}`;
}
