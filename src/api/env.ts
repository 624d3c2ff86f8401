import type { HttpEnv } from "millrace/http";
import type { CrmAccountVars } from "../providers/crm-account.ts";
import type { CrmSecretVars } from "../providers/hubspot-signature.ts";
import type { WebhookVars } from "../systems/webhooks/settings.ts";

/** Variables that only some deployments set. */
interface ApiVars {
  /** `"true"` lets tokens with the scope `embedded` inject faults into the embedded upstreams and read their ledger. */
  EMBEDDED_CONTROL?: string;
  /** The address at which people reach this Worker. */
  PUBLIC_URL?: string;
}

/** What every handler finds in its context. */
export interface ApiEnv {
  Bindings: Env & ApiVars & WebhookVars & CrmSecretVars & CrmAccountVars;
  Variables: HttpEnv["Variables"];
}
