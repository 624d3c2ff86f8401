import { isHttpAddress } from "./settings.ts";

/** The result of the check of an address before a signed request: allowed, refused, or currently unknown. */
export type Guarded = { verdict: "public"; url: URL } | { verdict: "refused"; reason: string } | { verdict: "unknown"; reason: string };

/** Checks the address of a signed request: an alert's webhook, or a command's `callback_url`. */
export type AddressGuard = (env: Cloudflare.Env, url: string) => Promise<Guarded>;

export const MAX_ADDRESS_CHARACTERS = 2048;

/** True for an http or https address without user and password. A deployment's guard decides whether the engine may call the address. */
export function isCallable(text: string): boolean {
  if (!isHttpAddress(text)) return false;
  const { username, password } = new URL(text);
  return !username && !password;
}
