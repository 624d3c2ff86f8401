import type { CallOptions } from "./upstream.ts";

/** A record as the CRM is to have it. */
export interface CrmRecord {
  /** Our name for it: the value of the CRM's unique id property. */
  key: string;
  properties: Record<string, string>;
}

/** What became of one record of a batch. */
export type CrmOutcome =
  | { key: string; state: "done"; crmId: string; created: boolean }
  /** `retry` is true when the same record may be taken later (a limit, a lock, a fault of theirs), false when it must be mended first. */
  | { key: string; state: "failed"; retry: boolean; category: string; message: string; correlationId: string | null };

/** A record as the CRM has it. */
export interface CrmFound {
  crmId: string;
  /** Our name for it; null for one that was made in the CRM. */
  key: string | null;
  properties: Record<string, string | null>;
  updatedAt: string;
  archived: boolean;
}

export type CrmObject = "contacts" | "companies";

/** At most this many records in one call. */
export const CRM_BATCH = 100;

/** A customer database elsewhere. Every method takes at most `CRM_BATCH` of something, and is safe to repeat: its effect class is `natural`. */
export interface Crm {
  /** Creates or updates records by our name for them. Answers each one's outcome, in their order: some may fail while others are taken. */
  upsert(object: CrmObject, records: readonly CrmRecord[], options: CallOptions): Promise<CrmOutcome[]>;
  /** Connects contacts with companies, both by the CRM's ids. One that is connected already stays so. */
  associate(pairs: readonly { contact: string; company: string }[], options: CallOptions): Promise<void>;
  /**
   * Contacts by the CRM's ids, with these properties (default: the usual ones); one that is gone is not in the answer, one that was
   * merged answers under its result's id.
   */
  read(crmIds: readonly string[], options: CallOptions, properties?: readonly string[]): Promise<CrmFound[]>;
  /** Gives contacts that were made in the CRM our names, by the CRM's ids. */
  name(records: readonly { crmId: string; key: string }[], options: CallOptions): Promise<void>;
  /** Merges one contact's record into another's, by the CRM's ids. Answers the id that the result has. */
  merge(kept: string, merged: string, options: CallOptions): Promise<string>;
}
