import * as z from "zod";
import { signed } from "../contract/ids.ts";
import type { HttpEnv } from "./env.ts";

export const fingerprintSchema = z.string().meta({
  description: "A digest of the payload, equal for equal payloads of the tenant. A key accepts only payloads with its first fingerprint.",
});

/**
 * A payload's fingerprint as people may see it, of 32 hex characters. It is signed: of a bare one, whoever sees the rest of a payload finds
 * a short field that is withheld by trying.
 */
export function fingerprintView({ MILLRACE_KEY }: HttpEnv["Bindings"], tenantId: string, fingerprint: string): string {
  return signed(MILLRACE_KEY, "fingerprint", tenantId, fingerprint);
}
