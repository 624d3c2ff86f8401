/** A deployment's settings for webhooks. */
export interface WebhookVars {
  MILLRACE_KEY: string;
  /** `"true"` allows endpoints on this machine (localhost, 127.0.0.1, ::1), with plain http too. Use this setting only for development. */
  WEBHOOKS_ALLOW_LOCAL?: string;
  /** The URL of a DNS-over-HTTPS service with the JSON format. The default is Cloudflare's service. */
  WEBHOOKS_RESOLVER?: string;
  /** Maximum seconds that a receiver may take for a response, 1 to 20. Default 15. */
  WEBHOOKS_TIMEOUT_SECONDS?: string;
}

const RESOLVER = "https://cloudflare-dns.com/dns-query";
const TIMEOUT_SECONDS = 15;
const MAX_TIMEOUT_SECONDS = 20;

export function allowsLocal(env: WebhookVars): boolean {
  return env.WEBHOOKS_ALLOW_LOCAL === "true";
}

export function resolverOf(env: WebhookVars): string {
  return env.WEBHOOKS_RESOLVER || RESOLVER;
}

/** Returns the maximum number of milliseconds that a receiver may take for a response. An invalid setting is replaced by the default. */
export function timeoutMs(env: WebhookVars): number {
  const seconds = Number(env.WEBHOOKS_TIMEOUT_SECONDS);
  return (seconds >= 1 ? Math.min(seconds, MAX_TIMEOUT_SECONDS) : TIMEOUT_SECONDS) * 1000;
}
