import { texts } from "millrace";
import { type Contact, emailSchema, MAX_NAME_CHARACTERS, MAX_VALUE_CHARACTERS } from "../contacts/contact.ts";

/** The properties of a CRM record as texts; an empty property is "". */
export type Properties = Readonly<Record<string, string>>;

export interface CrmVars {
  /** Further synchronised contact properties, by their names in the CRM, separated by commas. The properties must exist in the CRM. */
  CRM_PROPERTIES?: string;
}

/** Contact properties that have the same names in our database and in every CRM with this API. */
const STANDARD = ["company", "phone", "mobilephone", "jobtitle", "website", "address", "city", "state", "zip", "country"];

/** The CRM's names of a person's address and name. */
const OWN = ["email", "firstname", "lastname"];

/** Names of the synchronised contact properties. All other properties are not sent to the CRM. */
function shared(vars: object): string[] {
  const further = ((vars as CrmVars).CRM_PROPERTIES ?? "").split(",").map((name) => name.trim());
  return [...new Set([...STANDARD, ...further])].filter((name) => name !== "" && !OWN.includes(name));
}

/** All synchronised properties. */
export function propertyNames(vars: object): string[] {
  return [...OWN, ...shared(vars)];
}

/**
 * Converts a contact to CRM properties. A name is one text in our database and two texts in the CRM. If the two known texts together equal
 * our text, the two texts remain unchanged. An absent property is not sent, because a file without the column must not empty the property
 * in the CRM. A contact's property with an empty text empties the property in the CRM.
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

/** Returns the CRM's values of the properties that a contact does not have. A property with an empty text counts as present. */
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

/** A change to some columns of a contact's row. In `properties`, null removes a property. */
export interface ContactPatch {
  email: string | null;
  name: string | null;
  /** The previous name, on which the new name is based. The new name is written only if the contact still has the previous name. */
  instead_of?: string | undefined;
  properties: Record<string, string | number | boolean | null>;
}

/** Converts CRM properties to a change of a contact's row. `all` contains all CRM values of the contact after the change. */
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

/** True if a patch changes the contact's row. Another split of the same name into first and last name does not change the row. */
export function isChange({ email, name, properties }: Contact, patch: ContactPatch): boolean {
  return (
    (patch.email ?? email) !== email ||
    (patch.name ?? name) !== name ||
    Object.entries(patch.properties).some(([property, value]) => (value === null ? property in properties : properties[property] !== value))
  );
}

/** True if a contact may have this value; an invalid address, or a text that is too long, is not copied from the CRM. */
export function isTakeable(property: string, value: string): boolean {
  if (property === "email") return emailSchema.safeParse(value).success;
  return texts.characterCount(value) <= (OWN.includes(property) ? MAX_NAME_CHARACTERS / 2 - 1 : MAX_VALUE_CHARACTERS);
}

/** True if two values of a property are equal. The CRM writes addresses in lower case. */
export function isSame(property: string, one: string, other: string): boolean {
  return property === "email" ? one.trim().toLowerCase() === other.trim().toLowerCase() : one === other;
}

function fullName({ firstname = "", lastname = "" }: Properties): string {
  return `${firstname.trim()} ${lastname.trim()}`.trim();
}

function text(value: string | number | boolean | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

/** Converts a CRM text to the type that the contact's previous value has: number, boolean or string. */
function sameKind(value: string, before: unknown): string | number | boolean {
  if (typeof before === "number" && String(Number(value)) === value) return Number(value);
  if (typeof before === "boolean" && (value === "true" || value === "false")) return value === "true";
  return value;
}
