import type { Hide } from "../contract/hide.ts";
import type { AttemptError } from "../inspect/history.ts";

/** What an attempt failed of, as it is shown. */
export function attemptErrorView({ name, message }: AttemptError, hide: Hide): { name: string; message: string } {
  return hide({ name, message });
}
