import { createHmac } from "node:crypto";
import { assertSecret } from "../contract/ids.ts";

/**
 * The secret that signs a tenant's callbacks, in the form of Standard Webhooks: `whsec_` and 32 bytes in base64. The secret is derived from
 * the deployment's key on each use, so that the secret changes only with that key. Errors: `config_invalid` without a key.
 */
export function callbackSecret(key: string, tenantId: string): string {
  assertSecret(key);
  const parts = JSON.stringify(["callback secret", tenantId]);
  return `whsec_${createHmac("sha256", key).update(parts).digest("base64")}`;
}
