import { createHmac } from "node:crypto";
import { MillraceError } from "millrace";

export const SIGNATURE_HEADER = "X-HubSpot-Signature-v3";
export const TIMESTAMP_HEADER = "X-HubSpot-Request-Timestamp";

const SHA256_IN_BASE64 = /^[A-Za-z0-9+/]{43}=$/;

/**
 * If these characters are percent-encoded in a URL, HubSpot decodes them before it signs the URL. HubSpot decodes no other characters
 * (HubSpot's page "Validating requests", version 3).
 */
const DECODED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

/**
 * Computes HubSpot's signature of a request, version 3: HMAC-SHA256 over method, URL, body and time, in base64. `timestamp` is a time in
 * milliseconds.
 */
export function hubspotSignature(secret: string, method: string, url: string, body: string, timestamp: string): string {
  return createHmac("sha256", secret)
    .update(signedTextOf(method, url, body, timestamp))
    .digest("base64");
}

function signedTextOf(method: string, url: string, body: string, timestamp: string): string {
  return `${method}${url.replace(DECODED, (code) => decodeURIComponent(code))}${body}${timestamp}`;
}

/** The rules by which HubSpot signs a request. `url` is the whole webhook address that is configured in HubSpot, including the scheme. */
export const hubspotScheme = {
  read({ method, url, headers }: Request) {
    const signature = headers.get(SIGNATURE_HEADER) ?? "";
    const timestamp = headers.get(TIMESTAMP_HEADER) ?? "";
    return {
      signatures: SHA256_IN_BASE64.test(signature) ? [new Uint8Array(Buffer.from(signature, "base64"))] : [],
      text: (body: string) => signedTextOf(method, url, body, timestamp),
      at: /^\d{1,16}$/.test(timestamp) ? Number(timestamp) / 1000 : Number.NaN,
    };
  },
};

export interface CrmSecretVars {
  CRM_URL?: string;
  CRM_WEBHOOK_SECRET?: string;
  MILLRACE_KEY: string;
}

/**
 * The key of the CRM's signatures: CRM_WEBHOOK_SECRET. The variable can be unset for the embedded CRM, because the embedded CRM's key is
 * derived from the deployment's own key. Errors: `config_invalid` if neither key exists, or for a real CRM without the variable.
 */
export function crmWebhookSecret(env: CrmSecretVars): string {
  if (env.CRM_WEBHOOK_SECRET) return env.CRM_WEBHOOK_SECRET;
  const embedded = !env.CRM_URL || env.CRM_URL.startsWith("embedded:");
  if (embedded && env.MILLRACE_KEY) return createHmac("sha256", env.MILLRACE_KEY).update("crm webhook secret").digest("base64url");
  const missing = embedded ? "MILLRACE_KEY" : "CRM_WEBHOOK_SECRET";
  throw new MillraceError(
    "config_invalid",
    `${missing} is not set. Set it with: wrangler secret put ${missing} (locally: a line in .dev.vars).`,
  );
}
