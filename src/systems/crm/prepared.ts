import type { ContactPatch, Properties } from "./properties.ts";
import type { Refused } from "./pushed.ts";
import type { RecordThere } from "./records.ts";
import type { Settled } from "./settle.ts";

/** A contact that is being pushed. */
export interface Work {
  id: string;
  revision: number;
  crmId: string | null;
  /** True if the record is not the linked one: known values of the linked record do not count. */
  isAnother?: true;
  readAt: number | null;
  settled: Settled;
  /** The values that the contact copies from the CRM; null for none. */
  patch: ContactPatch | null;
  /** 1 if the copied values change the contact's row. */
  takes: 0 | 1;
  maybe: readonly Properties[];
}

/** An alias, and its record, if it has one. */
export interface Away {
  id: string;
  revision: number;
  into: string;
  crmId: string | null;
  record: RecordThere;
}

/** The planned calls to the CRM, as plain data. */
export interface Prepared {
  /** The time at which the records were read. */
  lookedAt: number;
  work: Work[];
  away: Away[];
  /** Contacts that were requested directly. */
  asked: string[];
  cut: { contactId: string; revision: number }[];
  refused: Refused[];
}
