import type { Hide } from "../contract/hide.ts";
import type { AttemptError } from "../inspect/history.ts";

export function attemptErrorView({ name, message }: AttemptError, hide: Hide): { name: string; message: string } {
  return hide({ name, message });
}
