import type { ContactSynced } from "../../messages/crm.ts";
import type { CrmRefusal } from "../../providers/index.ts";
import type { Closed, LinkWrite, Take } from "./links.ts";

/** Why the CRM did not take a contact. */
export interface Refused extends CrmRefusal {
  contactId: string;
}

/** What became of some contacts in the CRM: everything that is to be written with it. */
export interface Pushed {
  links: LinkWrite[];
  takes: Take[];
  merged: Closed[];
  cut: Closed[];
  /** Contacts whose records are others than those that were known: before their links are written, nothing is known of them. */
  anew: Closed[];
  refused: Refused[];
  /** Contacts that the CRM took, or has as they are, with its ids for them. */
  synced: Parameters<typeof ContactSynced.from>[0][];
  /** How many of the asked there was nothing to send for. */
  skipped: number;
  /** Where it is there, nothing was sent, and nothing else is said. */
  lost?: Lost | undefined;
}

/** Of the records that a push looked at, more are gone than somebody is likely to have deleted. */
export interface Lost {
  gone: number;
  lookedAt: number;
  /** Some of their ids in the CRM. */
  records: string[];
}
