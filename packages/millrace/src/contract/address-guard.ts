import { isHttpAddress } from "./settings.ts";

/** What a deployment says of an address before a signed request goes there: it may; it may not; or nobody can say for now. */
export type Guarded = { verdict: "public"; url: URL } | { verdict: "refused"; reason: string } | { verdict: "unknown"; reason: string };

/** Judges the address of a signed request: an alert's webhook, or what a command wants called. */
export type AddressGuard = (env: Cloudflare.Env, url: string) => Promise<Guarded>;

export const MAX_ADDRESS_CHARACTERS = 2048;

/** True for an address that a request could be signed for. Whether it may be called, a deployment's guard says. */
export function isCallable(text: string): boolean {
  if (!isHttpAddress(text)) return false;
  const { username, password } = new URL(text);
  return !username && !password;
}
