import { ids, texts } from "millrace";
import { MAX_ID_CHARACTERS } from "../contacts/contact.ts";

/** Our key for a contact's record. The key includes the tenant, because one CRM may have the contacts of several tenants. */
export function contactKey(tenantId: string, contactId: string): string {
  return `${tenantId}/${contactId}`;
}

/** Returns the contact's id in a record's key. The result is undefined for a key of another tenant, and for a text that is no key. */
export function contactOf(tenantId: string, key: string): string | undefined {
  const id = key.startsWith(`${tenantId}/`) ? key.slice(tenantId.length + 1) : "";
  return id !== "" && texts.characterCount(id) <= MAX_ID_CHARACTERS ? id : undefined;
}

/** Our key for a company's record. Names that differ only in letter case or spaces have the same key. */
export function companyKey(tenantId: string, name: string): string {
  const plain = name.trim().replace(/\s+/g, " ").toLowerCase();
  return `${tenantId}/${plain.length <= 100 ? plain : ids.digest(plain)}`;
}

/** A step's key for the position after a contact. The key is the contact's id, or a digest if the id is unsuitable for a step's name. */
export function placeOf(after: string): string {
  if (after === "") return "start";
  return /^[\x21-\x2e\x30-\x7e]{1,60}$/.test(after) ? `after ${after}` : `after #${ids.digest(after)}`;
}
