import { createHmac } from "node:crypto";
import { assertSecret } from "../contract/ids.ts";

/**
 * The secret that signs a tenant's callbacks, as Standard Webhooks writes them: `whsec_` and 32 bytes in base64. Derived from the
 * deployment's key whenever it is needed, so it changes with that key, and never otherwise. Errors: `config_invalid` without one.
 */
export function callbackSecret(key: string, tenantId: string): string {
  assertSecret(key);
  const parts = JSON.stringify(["callback secret", tenantId]);
  return `whsec_${createHmac("sha256", key).update(parts).digest("base64")}`;
}
