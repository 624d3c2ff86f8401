import type { ContactPatch, Properties } from "./properties.ts";
import type { Refused } from "./pushed.ts";
import type { RecordThere } from "./records.ts";
import type { Settled } from "./settle.ts";

export interface Work {
  id: string;
  revision: number;
  crmId: string | null;
  /** True if the CRM record is not the linked record. In this case the known values of the link are ignored. */
  isAnother?: true;
  readAt: number | null;
  settled: Settled;
  /** The values to copy from the CRM to the contact; null if no values are copied. */
  patch: ContactPatch | null;
  /** 1 if the copied values change the contact's row. */
  takes: 0 | 1;
  maybe: readonly Properties[];
}

/** A contact that is an alias of another contact, and the alias's own CRM record, if any. */
export interface Away {
  id: string;
  revision: number;
  into: string;
  crmId: string | null;
  record: RecordThere;
}

/** The planned calls to the CRM, as plain data. */
export interface Prepared {
  lookedAt: number;
  work: Work[];
  away: Away[];
  /** The contacts that the caller named in the request. */
  asked: string[];
  cut: { contactId: string; revision: number }[];
  refused: Refused[];
}
