import type { CallOptions } from "./upstream.ts";

/** A record to write to the CRM. */
export interface CrmRecord {
  /** The app's key for the record: the value of the CRM's unique id property. */
  key: string;
  properties: Record<string, string>;
}

/** The reason why the CRM refused one record. */
export interface CrmRefusal {
  /** True if the same record may be accepted later (a limit, a lock, a failure of the CRM), false if it must be fixed first. */
  retry: boolean;
  category: string;
  message: string;
  correlationId: string | null;
}

/** The result for one record of a batch. */
export type CrmOutcome = { key: string; state: "done"; crmId: string; created: boolean } | ({ key: string; state: "failed" } & CrmRefusal);

/** The CRM's refusals of contacts, by the CRM's ids of the contacts. All other contacts of the call were accepted. */
export type CrmRefusals = ReadonlyMap<string, CrmRefusal>;

/** A record as it was read from the CRM. */
export interface CrmFound {
  crmId: string;
  /** The app's key for the record; null for a record created in the CRM. */
  key: string | null;
  properties: Record<string, string | null>;
  updatedAt: string;
  archived: boolean;
}

/** The kind of ids by which records are read: the CRM's ids, or the app's keys. */
export type CrmReadBy = "id" | "name";

/** The result of reading records. A requested record that is in neither list does not exist any more. */
export interface CrmReading {
  found: CrmFound[];
  /** The refused records, by the requested ids. */
  refused: CrmRefusals;
}

/** The result of a merge: the id of the resulting record, or the CRM's refusal. */
export type CrmMerge = { state: "done"; crmId: string } | ({ state: "failed" } & CrmRefusal);

/** Returns those of these records, by the app's keys, that are unchanged in the CRM since they were read, or do not exist yet. */
export type CrmAsRead = (keys: readonly string[]) => Promise<ReadonlySet<string>>;

/** How long data that was read from the CRM is valid: before a later upsert the record is read again. */
export const CRM_FRESH_MS = 2000;

export type CrmObject = "contacts" | "companies";

/** Maximum number of records in one call to the CRM. */
export const CRM_BATCH = 100;

/**
 * An external CRM. Every method of the CRM accepts at most `CRM_BATCH` items and is repeatable: its effect class is `natural`. A refusal of
 * one record is that record's result; a failure of the whole call (a token, a limit, an error) is thrown.
 */
export interface Crm {
  /**
   * Creates or updates records by the app's keys. The function returns the results in order: some records may fail while others are
   * accepted. `asRead` is called before a late call; records that it does not return are not sent, and are to be retried.
   */
  upsert(object: CrmObject, records: readonly CrmRecord[], options: CallOptions, asRead?: CrmAsRead): Promise<CrmOutcome[]>;
  /** Connects contacts with companies, both by the CRM's ids, one company per contact. Existing connections of a contact remain. */
  associate(pairs: readonly { contact: string; company: string }[], options: CallOptions): Promise<CrmRefusals>;
  /**
   * Returns contacts by their ids in the CRM (default) or by the keys of Millrace, with these properties (default: email, names, phone,
   * company). A merged contact has the id of the contact that it was merged into.
   */
  read(ids: readonly string[], options: CallOptions, properties?: readonly string[], by?: CrmReadBy): Promise<CrmReading>;
  /** Sets the app's keys on contacts that were created in the CRM, by the CRM's ids. */
  name(records: readonly { crmId: string; key: string }[], options: CallOptions): Promise<CrmRefusals>;
  /** Merges one contact's record into another contact's record, by the CRM's ids. */
  merge(kept: string, merged: string, options: CallOptions): Promise<CrmMerge>;
  /** Deletes a contact's record permanently, as privacy laws require. A record that does not exist counts as deleted. */
  erase(crmId: string, options: CallOptions): Promise<void>;
}
