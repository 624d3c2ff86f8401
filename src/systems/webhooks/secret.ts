import { createHmac } from "node:crypto";
import { MillraceError } from "millrace";

/**
 * Returns the secret of an endpoint in one generation, in the format of Standard Webhooks: `whsec_` and 32 bytes in base64. The secret is
 * derived from the deployment's key at each use, and is never stored. Throws `config_invalid` without MILLRACE_KEY.
 */
export function secretOf(key: string, tenantId: string, endpointId: string, generation: number): string {
  if (!key) {
    throw new MillraceError(
      "config_invalid",
      "MILLRACE_KEY is not set, and webhook secrets are derived from it. Set it with: wrangler secret put MILLRACE_KEY.",
    );
  }
  const parts = JSON.stringify(["webhook secret", tenantId, endpointId, generation]);
  return `whsec_${createHmac("sha256", key).update(parts).digest("base64")}`;
}
