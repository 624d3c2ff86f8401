import type { ContactPatch, Properties } from "./properties.ts";
import type { Refused } from "./pushed.ts";
import type { RecordThere } from "./records.ts";
import type { Settled } from "./settle.ts";

/** A contact on its way. */
export interface Work {
  id: string;
  revision: number;
  crmId: string | null;
  /** Its record is not the one that its link names: what is known of that does not count. */
  isAnother?: true;
  readAt: number | null;
  settled: Settled;
  /** What it takes over; null where that is nothing. */
  patch: ContactPatch | null;
  /** 1 when that changes its row. */
  takes: 0 | 1;
  maybe: readonly Properties[];
}

/** A contact that is known as another one, and its record, if it has one. */
export interface Away {
  id: string;
  revision: number;
  into: string;
  crmId: string | null;
  record: RecordThere;
}

/** What is to be done in the CRM: plain data. */
export interface Prepared {
  /** When the records had been read. */
  lookedAt: number;
  work: Work[];
  away: Away[];
  /** Contacts that were asked for themselves. */
  asked: string[];
  cut: { contactId: string; revision: number }[];
  refused: Refused[];
}
