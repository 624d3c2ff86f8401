import { characterCount } from "millrace";
import { type Contact, emailSchema, MAX_NAME_CHARACTERS, MAX_VALUE_CHARACTERS } from "../contacts/contact.ts";

/** A record's properties as the CRM knows them: texts, and "" for none. */
export type Properties = Readonly<Record<string, string>>;

/** What a deployment may say about its CRM beyond how to reach it. */
export interface CrmVars {
  /** Further contact properties to keep in step, by their names in the CRM, separated by commas. They must exist there. */
  CRM_PROPERTIES?: string;
}

/** Contact properties that every CRM of this format has under the same name. */
const STANDARD = ["company", "phone", "mobilephone", "jobtitle", "website", "address", "city", "state", "zip", "country"];

/** What a person's address and name are called there. */
const OWN = ["email", "firstname", "lastname"];

/** Names of the contact's properties that are kept in step. Another property of a contact stays here. */
function shared(vars: object): string[] {
  const further = ((vars as CrmVars).CRM_PROPERTIES ?? "").split(",").map((name) => name.trim());
  return [...new Set([...STANDARD, ...further])].filter((name) => name !== "" && !OWN.includes(name));
}

/** Every property that is kept in step. */
export function propertyNames(vars: object): string[] {
  return [...OWN, ...shared(vars)];
}

/**
 * A contact as the CRM's properties. A name is one text here and two there: where the CRM is known to split it in its own way, and the
 * whole is still the same, it stays split so. A property that a contact does not have says nothing: a file without the column must not
 * empty it there. To empty one, write it empty.
 */
export function toProperties(vars: object, { email, name, properties }: Contact, known: Properties = {}): Properties {
  const kept = fullName(known) === name.trim();
  const [, first = "", last = ""] = /^(\S*)\s*([\s\S]*)$/.exec(name.trim()) ?? [];
  const ours: Record<string, string> = {
    email,
    firstname: kept ? (known.firstname ?? "") : first,
    lastname: kept ? (known.lastname ?? "") : last,
  };
  for (const property of shared(vars)) ours[property] = property in properties ? text(properties[property]) : (known[property] ?? "");
  return ours;
}

/** What the CRM has of properties that a contact does not have at all, not even empty. */
export function missingHere(
  vars: object,
  { properties }: Contact,
  theirs: Readonly<Record<string, string | null>>,
): Record<string, string> {
  const missing = shared(vars).flatMap((name) => {
    const value = name in properties ? "" : (theirs[name] ?? "");
    return value !== "" && isTakeable(name, value) ? [[name, value] as const] : [];
  });
  return Object.fromEntries(missing);
}

/** A part of a contact's row. In `properties`, null removes. */
export interface ContactPatch {
  email: string | null;
  name: string | null;
  /** The name that was read here, of which this one is made: it replaces no other. */
  instead_of?: string | undefined;
  properties: Record<string, string | number | boolean | null>;
}

/** What taking these properties over means for a contact, of which `all` says how they are afterwards. */
export function asPatch(contact: Pick<Contact, "properties"> & { name?: string }, taken: Properties, all: Properties): ContactPatch {
  const patch: ContactPatch = { email: taken.email ?? null, name: null, properties: {} };
  if ("firstname" in taken || "lastname" in taken) {
    patch.name = fullName(all);
    patch.instead_of = contact.name;
  }
  for (const [property, value] of Object.entries(taken)) {
    if (!OWN.includes(property)) patch.properties[property] = value === "" ? null : sameKind(value, contact.properties[property]);
  }
  return patch;
}

/** Whether a patch changes the contact's row at all: a name that is only split otherwise in the CRM is the same name here. */
export function isChange({ email, name, properties }: Contact, patch: ContactPatch): boolean {
  return (
    (patch.email ?? email) !== email ||
    (patch.name ?? name) !== name ||
    Object.entries(patch.properties).some(([property, value]) => (value === null ? property in properties : properties[property] !== value))
  );
}

/** Whether a contact may have this value: an address that is none, or a text that is too long, stays there. */
export function isTakeable(property: string, value: string): boolean {
  if (property === "email") return emailSchema.safeParse(value).success;
  return characterCount(value) <= (OWN.includes(property) ? MAX_NAME_CHARACTERS / 2 - 1 : MAX_VALUE_CHARACTERS);
}

/** Whether two values are one. The CRM writes addresses in lower case. */
export function isSame(property: string, one: string, other: string): boolean {
  return property === "email" ? one.trim().toLowerCase() === other.trim().toLowerCase() : one === other;
}

function fullName({ firstname = "", lastname = "" }: Properties): string {
  return `${firstname.trim()} ${lastname.trim()}`.trim();
}

function text(value: string | number | boolean | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

/** A number stays a number where there was one, and so does a yes or no. */
function sameKind(value: string, before: unknown): string | number | boolean {
  if (typeof before === "number" && String(Number(value)) === value) return Number(value);
  if (typeof before === "boolean" && (value === "true" || value === "false")) return value === "true";
  return value;
}
