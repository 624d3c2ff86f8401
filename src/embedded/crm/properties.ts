import { PORTAL_ID } from "../../providers/credentials.ts";
import { Refused } from "./answers.ts";

export type CrmObjectName = "contacts" | "companies";

/** The names that HubSpot's messages use for object types. */
export const TYPE_IDS: Record<CrmObjectName, string> = { contacts: "0-1", companies: "0-2" };

const TEXT: Record<CrmObjectName, readonly string[]> = {
  contacts: [
    "email",
    "firstname",
    "lastname",
    "phone",
    "mobilephone",
    "company",
    "jobtitle",
    "website",
    "address",
    "city",
    "state",
    "zip",
    "country",
    "lifecyclestage",
  ],
  companies: [
    "name",
    "domain",
    "phone",
    "website",
    "industry",
    "description",
    "address",
    "city",
    "state",
    "zip",
    "country",
    "lifecyclestage",
  ],
};
const READ_ONLY = new Set(["hs_object_id", "createdate", "lastmodifieddate", "hs_lastmodifieddate", "hs_merged_object_ids"]);
const STAGES = new Set([
  "subscriber",
  "lead",
  "marketingqualifiedlead",
  "salesqualifiedlead",
  "opportunity",
  "customer",
  "evangelist",
  "other",
]);
const EMAIL = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/;
const MAX_VALUE_LENGTH = 65_536;

/** Finds names of properties that the object type does not have. HubSpot refuses a whole batch because of one unknown property. */
export function unknownProperties(object: CrmObjectName, idProperty: string, properties: Record<string, string>): string[] {
  return Object.keys(properties).filter((name) => name !== idProperty && !TEXT[object].includes(name) && !READ_ONLY.has(name));
}

/** @throws Refuses a value that does not fit its property, with HubSpot's error text. */
export function checkValues(properties: Record<string, string>): void {
  const invalid = Object.entries(properties).flatMap(([name, value]) => {
    if (READ_ONLY.has(name)) return [fault(name, "READ_ONLY_VALUE", `${name} is a read only property`)];
    if (value.length > MAX_VALUE_LENGTH) return [fault(name, "VALUE_TOO_LONG", `${name} is longer than ${MAX_VALUE_LENGTH} characters`)];
    if (name === "email" && value !== "" && !EMAIL.test(value)) return [fault(name, "INVALID_EMAIL", `Email address ${value} is invalid`)];
    if (name === "lifecyclestage" && value !== "" && !STAGES.has(value)) {
      return [fault(name, "INVALID_OPTION", `${value} was not one of the allowed options: [${[...STAGES].join(", ")}]`)];
    }
    return [];
  });
  if (invalid.length > 0) throw notValid(invalid);
}

export function doesNotExist(names: readonly string[]): Refused {
  return notValid(names.map((name) => fault(name, "PROPERTY_DOESNT_EXIST", `Property "${name}" does not exist`)));
}

function notValid(faults: object[]): Refused {
  return new Refused(400, "VALIDATION_ERROR", `Property values were not valid: ${JSON.stringify(faults)}`);
}

function fault(name: string, error: string, message: string): object {
  return { isValid: false, message, error, name, localizedErrorMessage: message, portalId: PORTAL_ID };
}
