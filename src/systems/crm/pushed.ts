import type { ContactSynced } from "../../messages/crm.ts";
import type { CrmRefusal } from "../../providers/index.ts";
import type { Closed, LinkWrite, Take } from "./links.ts";

export interface Refused extends CrmRefusal {
  contactId: string;
}

/** The results of a push, with everything to write for them. */
export interface Pushed {
  links: LinkWrite[];
  takes: Take[];
  merged: Closed[];
  cut: Closed[];
  /** Contacts that have another record than the known one: their known values are deleted before their links are written. */
  anew: Closed[];
  refused: Refused[];
  /** Contacts whose values the CRM accepted or has already, with their CRM ids. */
  synced: Parameters<typeof ContactSynced.from>[0][];
  /** Number of requested contacts without changes. */
  skipped: number;
  /** If set, the push sent nothing, and the other fields are empty. */
  lost?: Lost | undefined;
}

/** So many CRM records are missing that an operator is unlikely to have deleted all of them. */
export interface Lost {
  gone: number;
  lookedAt: number;
  /** Some ids of the missing records in the CRM. */
  records: string[];
}
