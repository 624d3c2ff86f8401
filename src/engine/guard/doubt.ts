import { digest } from "../contract/ids.ts";

/** The platform's event type that wakes an instance parked on a doubt: one per entry and generation, so that an old answer cannot wake a later doubt. */
export function doubtEventType(entryKey: string): string {
  return `doubt-${digest("doubt", entryKey)}`;
}
