import type { CallOptions } from "./upstream.ts";

/** A record as the CRM is to have it. */
export interface CrmRecord {
  /** Our name for it: the value of the CRM's unique id property. */
  key: string;
  properties: Record<string, string>;
}

/** Why the CRM refused one record. */
export interface CrmRefusal {
  /** True when the same record may be taken later (a limit, a lock, a fault of theirs), false when it must be mended first. */
  retry: boolean;
  category: string;
  message: string;
  correlationId: string | null;
}

/** What became of one record of a batch. */
export type CrmOutcome = { key: string; state: "done"; crmId: string; created: boolean } | ({ key: string; state: "failed" } & CrmRefusal);

/** Refusals by the CRM's ids of the contacts concerned. Every other contact of the call was taken. */
export type CrmRefusals = ReadonlyMap<string, CrmRefusal>;

/** A record as the CRM has it. */
export interface CrmFound {
  crmId: string;
  /** Our name for it; null for one that was made in the CRM. */
  key: string | null;
  properties: Record<string, string | null>;
  updatedAt: string;
  archived: boolean;
}

/** By what records are asked for: the CRM's ids, or our names for them. */
export type CrmReadBy = "id" | "name";

/** What came of a look at some records. One that was asked for and is in neither is gone. */
export interface CrmReading {
  found: CrmFound[];
  /** By what they were asked for. */
  refused: CrmRefusals;
}

/** What came of a merge: the id that the result has, or why the CRM refuses it. */
export type CrmMerge = { state: "done"; crmId: string } | ({ state: "failed" } & CrmRefusal);

/** Which of these records, by our names for them, are in the CRM as they were read, or are not there yet. */
export type CrmAsRead = (keys: readonly string[]) => Promise<ReadonlySet<string>>;

/** How long a reading of a record counts: before an upsert that comes later it is read again. */
export const CRM_FRESH_MS = 2000;

export type CrmObject = "contacts" | "companies";

/** At most this many records in one call. */
export const CRM_BATCH = 100;

/**
 * A customer database elsewhere. Every method takes at most `CRM_BATCH` of something, and is safe to repeat: its effect class is `natural`.
 * What the CRM refuses of one record is that record's outcome; what it says of the whole call (a token, a limit, a fault) is thrown.
 */
export interface Crm {
  /**
   * Creates or updates records by our name for them. Answers each one's outcome, in their order: some may fail while others are taken.
   * `asRead` is asked before a call of it that comes late: records that it does not name are not sent any more, and are to be tried again.
   */
  upsert(object: CrmObject, records: readonly CrmRecord[], options: CallOptions, asRead?: CrmAsRead): Promise<CrmOutcome[]>;
  /** Connects contacts with companies, both by the CRM's ids, a contact with one company. One that is connected already stays so. */
  associate(pairs: readonly { contact: string; company: string }[], options: CallOptions): Promise<CrmRefusals>;
  /**
   * Contacts by the CRM's ids (default), or by our names for them, with these properties (default: the usual ones). One that was merged
   * answers under its result's id.
   */
  read(ids: readonly string[], options: CallOptions, properties?: readonly string[], by?: CrmReadBy): Promise<CrmReading>;
  /** Gives contacts that were made in the CRM our names, by the CRM's ids. */
  name(records: readonly { crmId: string; key: string }[], options: CallOptions): Promise<CrmRefusals>;
  /** Merges one contact's record into another's, by the CRM's ids. */
  merge(kept: string, merged: string, options: CallOptions): Promise<CrmMerge>;
  /** Erases a contact's record for good, as privacy laws ask for: it cannot be restored. One that is gone already is done. */
  erase(crmId: string, options: CallOptions): Promise<void>;
}
