import { placed } from "millrace/worker";
import type { ContactBook } from "./contact-book.ts";

/** A tenant's contact book. */
export function contactBookOf(env: Env, tenantId: string): DurableObjectStub<ContactBook> {
  return env.CONTACT_BOOK.get(env.CONTACT_BOOK.idFromName(tenantId), placed(env));
}

/** Returns the canonical contact of each given contact, in one call. A contact without merges is its own canonical contact. */
export async function resolveContacts(env: Env, tenantId: string, ids: readonly string[]): Promise<Map<string, string>> {
  const asked = [...new Set(ids)];
  if (asked.length === 0) return new Map();
  const canonical = await contactBookOf(env, tenantId).resolve(asked);
  return new Map(asked.map((id, index) => [id, canonical[index] ?? id]));
}
