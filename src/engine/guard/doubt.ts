import { digest, parseEntryKey } from "../contract/ids.ts";
import type { Seen } from "../store/inbox/entry.ts";

/**
 * The platform's event type that wakes an instance parked on a doubt: one per entry and generation, so that an old answer cannot wake a
 * later doubt.
 */
export function doubtEventType(entryKey: string): string {
  return `doubt-${digest("doubt", entryKey)}`;
}

/** Whether an effect, by its entry's key, still waits for a person to say what became of it. */
export function isInDoubt(entries: readonly Seen[], entryKey: string): boolean {
  const key = parseEntryKey(entryKey);
  return entries.some(
    ({ step, item, generation, state }) => step === key?.step && item === key.item && generation === key.generation && state === "in_doubt",
  );
}
