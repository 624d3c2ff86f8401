import { signed } from "../contract/ids.ts";
import type { HttpEnv } from "./env.ts";

/**
 * A payload's signed fingerprint for the API, 32 hex characters. With an unsigned digest, a reader who sees the rest of a payload could
 * find a short redacted field by trying values.
 */
export function fingerprintView({ MILLRACE_KEY }: HttpEnv["Bindings"], tenantId: string, fingerprint: string): string {
  return signed(MILLRACE_KEY, "fingerprint", tenantId, fingerprint);
}
