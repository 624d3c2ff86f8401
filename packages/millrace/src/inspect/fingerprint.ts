import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { signed } from "../contract/ids.ts";
import { STORED_CHARACTERS } from "../store/tombstones.ts";

export const Fingerprint = z
  .string()
  .describe(
    "A digest of the payload: equal payloads of a tenant have equal fingerprints. A key accepts only the payload that first used it.",
  );

/**
 * 32 hex characters. With an unsigned digest, a reader who sees the rest of a payload could find a short redacted field by trying values.
 * A tombstone has only the beginning of the fingerprint, so the beginning is signed.
 */
export function signedFingerprint({ MILLRACE_KEY }: Pick<EngineEnv, "MILLRACE_KEY">, tenantId: string, fingerprint: string): string {
  return signed(MILLRACE_KEY, "fingerprint", tenantId, fingerprint.slice(0, STORED_CHARACTERS));
}
