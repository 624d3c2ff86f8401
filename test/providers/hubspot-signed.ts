import { vi } from "vitest";
import { isSigned, mayBeSigned } from "../../packages/millrace/src/http/webhook-schemes.ts";
import { hubspotScheme } from "../../src/providers/hubspot-signature.ts";

/** True if HubSpot signed this request within five minutes of `now`. */
export async function isSignedByHubspot(request: Request, body: string, secret: string, now = Date.now()): Promise<boolean> {
  const clock = vi.spyOn(Date, "now").mockReturnValue(now);
  const signed = hubspotScheme.read(request);
  const isPossible = mayBeSigned(signed);
  clock.mockRestore();
  return isPossible && isSigned(signed, body, [new TextEncoder().encode(secret)]);
}
