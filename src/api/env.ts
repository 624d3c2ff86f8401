import type { HttpEnv } from "millrace/http";
import type { CrmAccountVars } from "../providers/crm-account.ts";
import type { CrmSecretVars } from "../providers/hubspot-signature.ts";
import type { WebhookVars } from "../systems/webhooks/settings.ts";

interface ApiVars {
  /**
   * `"true"` allows tokens with the scope `embedded` to inject faults into the embedded upstreams and to read the ledger of the upstreams.
   */
  EMBEDDED_CONTROL?: string;
  /** The public address of this Worker. */
  PUBLIC_URL?: string;
}

/** The Hono environment of every handler. */
export interface ApiEnv {
  Bindings: Env & ApiVars & WebhookVars & CrmSecretVars & CrmAccountVars;
  Variables: HttpEnv["Variables"];
}
