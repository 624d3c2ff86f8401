import { createHmac, timingSafeEqual } from "node:crypto";
import { MillraceError } from "millrace";

export const SIGNATURE_HEADER = "X-HubSpot-Signature-v3";
export const TIMESTAMP_HEADER = "X-HubSpot-Request-Timestamp";

/** HubSpot's own limit: an older request may be a replay. */
const TOLERANCE_MS = 5 * 60_000;

const SHA256_IN_BASE64 = /^[A-Za-z0-9+/]{43}=$/;

/** HubSpot signs these characters decoded if they are percent-encoded, and no others (its page "Validating requests", version 3). */
const DECODED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

interface SignedRequest {
  method: string;
  /** The whole URL that HubSpot is configured with, including the scheme. */
  url: string;
  headers: Headers;
}

/** The signature of a request, version 3: HMAC-SHA256 over method, URL, body and time, in base64. `timestamp` is in milliseconds. */
export function hubspotSignature(secret: string, method: string, url: string, body: string, timestamp: string): string {
  const address = url.replace(DECODED, (code) => decodeURIComponent(code));
  return createHmac("sha256", secret).update(`${method}${address}${body}${timestamp}`).digest("base64");
}

/** True for a well-formed signature and a time within five minutes: the checks that are possible before the body is read. */
export function mayBeSigned(headers: Headers, now = Date.now()): boolean {
  const timestamp = headers.get(TIMESTAMP_HEADER) ?? "";
  return (
    SHA256_IN_BASE64.test(headers.get(SIGNATURE_HEADER) ?? "") &&
    /^\d{1,16}$/.test(timestamp) &&
    Math.abs(now - Number(timestamp)) <= TOLERANCE_MS
  );
}

/** True if HubSpot sent this within the last five minutes. `body`: the received text, unparsed. */
export function verifyHubspotSignature(request: SignedRequest, body: string, secret: string, now = Date.now()): boolean {
  if (!mayBeSigned(request.headers, now)) return false;
  const signature = request.headers.get(SIGNATURE_HEADER) ?? "";
  const timestamp = request.headers.get(TIMESTAMP_HEADER) ?? "";
  const given = Buffer.from(signature);
  const expected = Buffer.from(hubspotSignature(secret, request.method, request.url, body, timestamp));
  return given.length === expected.length && timingSafeEqual(given, expected);
}

export interface CrmSecretVars {
  CRM_URL?: string;
  CRM_WEBHOOK_SECRET?: string;
  MILLRACE_KEY: string;
}

/**
 * The key of the CRM's signatures: CRM_WEBHOOK_SECRET. For the embedded CRM it can be unset, and is derived from the deployment's own key.
 * Errors: `config_invalid` without both, or for a real CRM without it.
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
