import type { ContactSynced } from "../../messages/crm.ts";
import type { CrmRefusal } from "../../providers/index.ts";
import type { Closed, LinkWrite, Take } from "./links.ts";

export interface Refused extends CrmRefusal {
  contactId: string;
}

/** The results of a push, from which the database writes are derived. */
export interface Pushed {
  links: LinkWrite[];
  takes: Take[];
  merged: Closed[];
  cut: Closed[];
  /** Contacts whose record is not the linked record. The contacts' known values are deleted before the contacts' links are written. */
  anew: Closed[];
  refused: Refused[];
  /** Contacts whose values the CRM has now, with the ids of the contacts' records. */
  synced: Parameters<typeof ContactSynced.from>[0][];
  /** Number of requested contacts without changes. */
  skipped: number;
  /** Set if too many records are missing. In this case the push has sent nothing, and all other fields are empty. */
  lost?: Lost | undefined;
}

/** Describes missing CRM records, if more are missing than a push accepts without a question to an operator. */
export interface Lost {
  gone: number;
  lookedAt: number;
  /** The CRM ids of some of the missing records. */
  records: string[];
}
