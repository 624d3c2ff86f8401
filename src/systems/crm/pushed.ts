import type { ContactSynced } from "../../messages/crm.ts";
import type { CrmRefusal } from "../../providers/index.ts";
import type { Closed, LinkWrite, Take } from "./links.ts";

/** A contact that the CRM refused, with the reason. */
export interface Refused extends CrmRefusal {
  contactId: string;
}

/** The results of a push, with everything to write for them. */
export interface Pushed {
  links: LinkWrite[];
  takes: Take[];
  merged: Closed[];
  cut: Closed[];
  /** Contacts with other records than the known ones: their known values are deleted before their links are written. */
  anew: Closed[];
  refused: Refused[];
  /** Contacts that the CRM accepted, or has unchanged, with their CRM ids. */
  synced: Parameters<typeof ContactSynced.from>[0][];
  /** Number of requested contacts without changes. */
  skipped: number;
  /** If set, nothing was sent, and the other fields are empty. */
  lost?: Lost | undefined;
}

/** More records are missing than an operator is likely to have deleted. */
export interface Lost {
  gone: number;
  lookedAt: number;
  /** Some ids of the missing records in the CRM. */
  records: string[];
}
