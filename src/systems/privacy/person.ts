import { pseudonymOf } from "../contacts/forgotten.ts";
import type { Person } from "../contacts/traces.ts";
import { contactKey } from "../crm/keys.ts";
import { type Candidate, candidatesByIds } from "../crm/links.ts";
import { contactBookOf } from "../facts/derived/contact-books.ts";

/** A person, with the person's records in the CRM. */
export interface Known extends Person {
  /** The person's linked records in the CRM, with our keys of these records. */
  records: { crmId: string; key: string }[];
  /** Keys with which an interrupted push may have created a record. */
  unsure: string[];
}

/** Minimum number of digits of a telephone number that is searched. */
const LEAST_DIGITS = 6;

/** Combines a person's data from two reads. */
export function together(one: Known, other: Known): Known {
  const byId = (of: Known) => of.ids.map((id) => [id.id, id] as const);
  const byRecord = (of: Known) => of.records.map((record) => [record.crmId, record] as const);
  return {
    ids: [...new Map([...byId(one), ...byId(other)]).values()],
    emails: [...new Set([...one.emails, ...other.emails])],
    names: [...new Set([...one.names, ...other.names])],
    phones: [...new Set([...one.phones, ...other.phones])],
    records: [...new Map([...byRecord(one), ...byRecord(other)]).values()],
    unsure: [...new Set([...one.unsure, ...other.unsure])],
  };
}

/** Returns the ids of all contacts that are the same person as the given contact. */
export async function idsOf(env: Env, tenantId: string, contactId: string): Promise<string[]> {
  const { canonical_id, merged } = await contactBookOf(env, tenantId).contact(contactId);
  return [...new Set([contactId, canonical_id, ...merged])];
}

/**
 * Returns all ids of a contact's person. The result also contains the person's identifiers from these contacts and from the CRM's known
 * values.
 */
export async function whoIs(env: Env, tenantId: string, contactId: string): Promise<{ known: Known; candidates: Candidate[] }> {
  const ids = await idsOf(env, tenantId, contactId);
  const candidates = await candidatesByIds(env.DB, tenantId, ids);
  const said = candidates.flatMap(({ contact: { email, name, properties }, link }) => [
    { email, name, ...properties },
    ...[link?.known ?? {}, ...(link?.maybe ?? [])].map((known) => ({
      ...known,
      name: `${known.firstname ?? ""} ${known.lastname ?? ""}`.trim(),
    })),
  ]) as Record<string, unknown>[];
  const all = (...fields: string[]) => [...new Set(said.flatMap((one) => fields.map((field) => String(one[field] ?? "").trim())))];
  const links = candidates.flatMap(({ contact: { contact_id: id }, link }) => (link ? [{ key: contactKey(tenantId, id), link }] : []));
  const known: Known = {
    ids: ids.map((id) => ({ id, as: pseudonymOf(env, tenantId, id) })),
    emails: all("email").filter((email) => email.includes("@")),
    // A name of a single word is not searched, because such a name is too common.
    names: all("name").filter((name) => /\S\s+\S/.test(name)),
    phones: all("phone", "mobilephone").filter((phone) => phone.replace(/\D/g, "").length >= LEAST_DIGITS),
    records: links.flatMap(({ key, link: { crmId } }) => (crmId ? [{ crmId, key }] : [])),
    unsure: links.flatMap(({ key, link: { crmId, maybe } }) => (!crmId && maybe.length > 0 ? [key] : [])),
  };
  return { known, candidates };
}
