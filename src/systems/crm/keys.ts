import { characterCount, digest } from "millrace";
import { MAX_ID_CHARACTERS } from "../contacts/contact.ts";

/** Our key for a contact's record. The key includes the tenant, because one CRM may hold the contacts of several. */
export function contactKey(tenantId: string, contactId: string): string {
  return `${tenantId}/${contactId}`;
}

/** The contact of a record's key; undefined for another tenant's, and for other texts. */
export function contactOf(tenantId: string, key: string): string | undefined {
  const id = key.startsWith(`${tenantId}/`) ? key.slice(tenantId.length + 1) : "";
  return id !== "" && characterCount(id) <= MAX_ID_CHARACTERS ? id : undefined;
}

/** Our key for a company's record: spellings that differ in case or spaces are one company. */
export function companyKey(tenantId: string, name: string): string {
  const plain = name.trim().replace(/\s+/g, " ").toLowerCase();
  return `${tenantId}/${plain.length <= 100 ? plain : digest(plain)}`;
}

/** A step's key for the position after a contact: its id, or a digest if the id is unsuitable for a step's name. */
export function placeOf(after: string): string {
  if (after === "") return "start";
  return /^[\x21-\x2e\x30-\x7e]{1,60}$/.test(after) ? `after ${after}` : `after #${digest(after)}`;
}
