import { onTestFinished, vi } from "vitest";
import { contacts } from "../../../src/systems/batches/contacts.ts";

/**
 * Holds every attempt at the chunk with this contact, just before it is written, until it is released, as a process that is paused there.
 */
export function holdAt(contactId: string): { attempts: () => number; release: () => void } {
  let attempts = 0;
  let released = false;
  const take = contacts.take.bind(contacts);
  const spy = vi.spyOn(contacts, "take").mockImplementation(async (env, by, rows) => {
    if (!released && rows.some(({ contact_id }) => contact_id === contactId)) {
      attempts++;
      // Polls, because a promise must not cross from one request into another.
      while (!released) await scheduler.wait(10);
    }
    return take(env, by, rows);
  });
  onTestFinished(() => {
    released = true;
    spy.mockRestore();
  });
  return { attempts: () => attempts, release: () => (released = true) };
}
