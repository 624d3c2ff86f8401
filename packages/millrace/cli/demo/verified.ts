import { Webhook } from "standardwebhooks";

/** True where the reference library takes a request's signature for one of this secret. */
export function verifies(secret: string, body: string, headers: Record<string, string>): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}
