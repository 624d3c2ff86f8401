import { characterCount, digest } from "millrace";
import { MAX_ID_CHARACTERS } from "../contacts/contact.ts";

/** Our name for a contact's record. With the tenant, because one CRM may hold the contacts of several. */
export function contactKey(tenantId: string, contactId: string): string {
  return `${tenantId}/${contactId}`;
}

/** The contact a record is named after; undefined for another tenant's, and for what is no contact's id. */
export function contactOf(tenantId: string, key: string): string | undefined {
  const id = key.startsWith(`${tenantId}/`) ? key.slice(tenantId.length + 1) : "";
  return id !== "" && characterCount(id) <= MAX_ID_CHARACTERS ? id : undefined;
}

/** Our name for a company's record: two spellings that differ in case or spaces are one company. */
export function companyKey(tenantId: string, name: string): string {
  const plain = name.trim().replace(/\s+/g, " ").toLowerCase();
  return `${tenantId}/${plain.length <= 100 ? plain : digest(plain)}`;
}

/** A step's key for the place behind a contact: its id, or a digest of one that would be no good name for a step. */
export function placeOf(after: string): string {
  if (after === "") return "start";
  return /^[\x21-\x2e\x30-\x7e]{1,60}$/.test(after) ? `after ${after}` : `after #${digest(after)}`;
}
