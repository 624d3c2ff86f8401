import type { CallOptions } from "./upstream.ts";

/** A record to write to the CRM. */
export interface CrmRecord {
  /** The app's key for the record, which is the value of the CRM's unique id property. */
  key: string;
  properties: Record<string, string>;
}

/** The reason why the CRM refused one record. */
export interface CrmRefusal {
  /** True if the CRM may accept the same record later (a limit, a lock, a failure of the CRM). False if the record must be fixed first. */
  retry: boolean;
  category: string;
  message: string;
  correlationId: string | null;
}

/** The result for one record of a batch. */
export type CrmOutcome = { key: string; state: "done"; crmId: string; created: boolean } | ({ key: string; state: "failed" } & CrmRefusal);

/** The CRM's refusals of contacts, by the CRM's ids of the contacts. The CRM accepted all other contacts of the call. */
export type CrmRefusals = ReadonlyMap<string, CrmRefusal>;

/** A record in the form in which the CRM returned the record. */
export interface CrmFound {
  crmId: string;
  /** The app's key for the record; null for a record created in the CRM. */
  key: string | null;
  properties: Record<string, string | null>;
  updatedAt: string;
  archived: boolean;
}

/** The kind of the ids in a read call: the CRM's ids, or the app's keys. */
export type CrmReadBy = "id" | "name";

/** The result of reading records. If a requested record is neither in `found` nor in `refused`, the record does not exist any more. */
export interface CrmReading {
  found: CrmFound[];
  /** The refused records, by the requested ids. */
  refused: CrmRefusals;
}

/** The result of a merge: the id of the resulting record, or the CRM's refusal. */
export type CrmMerge = { state: "done"; crmId: string } | ({ state: "failed" } & CrmRefusal);

/**
 * Returns some of the given keys. These are the keys of records that are unchanged in the CRM since the app read them, or that do not exist
 * yet.
 */
export type CrmAsRead = (keys: readonly string[]) => Promise<ReadonlySet<string>>;

/** How long data that was read from the CRM is valid. Before a later upsert the record is read again. */
export const CRM_FRESH_MS = 2000;

export type CrmObject = "contacts" | "companies";

/** Maximum number of records in one call to the CRM. */
export const CRM_BATCH = 100;

/**
 * An external CRM. Every method of the CRM accepts at most `CRM_BATCH` items. Every method is repeatable, so its effect class is `natural`.
 * A refusal of one record is that record's result. A failure of the whole call (a token, a limit, an error) is thrown.
 */
export interface Crm {
  /**
   * Creates or updates records by the app's keys. The function returns the results in the order of the records. Some records may fail while
   * other records are accepted. The function calls `asRead` before a late call to the CRM. Records that `asRead` does not return are not
   * sent, and the caller retries them.
   */
  upsert(object: CrmObject, records: readonly CrmRecord[], options: CallOptions, asRead?: CrmAsRead): Promise<CrmOutcome[]>;
  /**
   * Connects each contact with one company. Contacts and companies are identified by the CRM's ids. Existing connections of a contact
   * remain.
   */
  associate(pairs: readonly { contact: string; company: string }[], options: CallOptions): Promise<CrmRefusals>;
  /**
   * Returns contacts by their ids in the CRM (default) or by the keys of Millrace, with these properties (default: email, names, phone,
   * company). If a contact was merged into another contact, the result has the id of the other contact.
   */
  read(ids: readonly string[], options: CallOptions, properties?: readonly string[], by?: CrmReadBy): Promise<CrmReading>;
  /** Sets the app's keys on contacts that were created in the CRM. The CRM's ids identify the contacts. */
  name(records: readonly { crmId: string; key: string }[], options: CallOptions): Promise<CrmRefusals>;
  /** Merges one contact's record into another contact's record. The CRM's ids identify the records. */
  merge(kept: string, merged: string, options: CallOptions): Promise<CrmMerge>;
  /** Deletes a contact's record permanently, as privacy laws require. A record that does not exist counts as deleted. */
  erase(crmId: string, options: CallOptions): Promise<void>;
}
