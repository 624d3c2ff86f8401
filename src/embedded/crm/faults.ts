import { Refused } from "./answers.ts";

/**
 * A rule that makes calls to the embedded CRM, or single records of calls, fail. The embedded CRM applies the first matching rule that has
 * remaining hits.
 */
export interface CrmFault {
  /** A text that the call's path or body contains. An empty `match` applies to every call. */
  match: string;
  /** The key of a record. With a key only that record fails, with its own error in a 207 response. Without a key the whole call fails. */
  key?: string;
  /** True if a batch that contains the record `key` is refused as a whole, with status 400 and without the record's name. */
  whole?: boolean;
  /** The HTTP status of the failed call or record. */
  status: number;
  /** HubSpot's error category. Default: the category that belongs to the status. */
  category?: string;
  /** The number of remaining calls or records that the rule applies to; null for no limit. */
  remaining: number | null;
  /** The value of the `Retry-After` header in seconds. */
  retryAfter?: number;
  /** True when the call changes the records and only the call's response is lost. Default: false, so the call has no effect. */
  afterEffect?: boolean;
}

interface FaultRow extends Record<string, SqlStorageValue> {
  key: string | null;
  whole: number;
  status: number;
  category: string | null;
  retry_after: number | null;
  after_effect: number;
}

const CATEGORIES: Record<number, string> = {
  401: "INVALID_AUTHENTICATION",
  403: "MISSING_SCOPES",
  404: "OBJECT_NOT_FOUND",
  409: "CONFLICT",
};

export class Faults {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  set(faults: readonly CrmFault[]): void {
    this.#sql.exec("DELETE FROM faults");
    for (const { match, key, whole, status, category, remaining, retryAfter, afterEffect } of faults) {
      this.#sql.exec(
        "INSERT INTO faults (match, key, whole, status, category, remaining, retry_after, after_effect) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        match,
        key ?? null,
        whole ? 1 : 0,
        status,
        category ?? null,
        remaining,
        retryAfter ?? null,
        afterEffect ? 1 : 0,
      );
    }
  }

  /** Finds the first fault that applies to the whole call, and uses up one of the fault's hits. */
  takeCall(pathAndBody: string): { refused: Refused; retryAfter: number | null; afterEffect: boolean } | undefined {
    const row = this.#take("key IS NULL AND instr(?1, match) > 0", pathAndBody);
    if (!row) return undefined;
    return { refused: refusal(row), retryAfter: row.retry_after, afterEffect: row.after_effect === 1 };
  }

  /** Finds the first fault for this record, and uses up one of the fault's hits. */
  takeRecord(key: string): Refused | undefined {
    const row = this.#take("key = ?1", key);
    return row && refusal(row);
  }

  /**
   * Returns the refusal of a whole batch because of one of its records. The refusal uses up no hit, so batches with that record are refused
   * as long as the rule exists.
   */
  refusesBatch(keys: readonly string[]): Refused | undefined {
    const [row] = this.#sql
      .exec<FaultRow>("SELECT * FROM faults WHERE whole = 1 AND key IN (SELECT value FROM json_each(?)) LIMIT 1", JSON.stringify(keys))
      .toArray();
    return row && refusal(row);
  }

  #take(condition: string, value: string): FaultRow | undefined {
    return this.#sql
      .exec<FaultRow>(
        `UPDATE faults SET remaining = remaining - 1
         WHERE id = (SELECT id FROM faults
           WHERE whole = 0 AND (remaining IS NULL OR remaining > 0) AND ${condition} ORDER BY id LIMIT 1)
         RETURNING *`,
        value,
      )
      .toArray()[0];
  }
}

function refusal({ status, category }: FaultRow): Refused {
  const word = category ?? CATEGORIES[status] ?? (status === 429 ? "RATE_LIMITS" : status < 500 ? "VALIDATION_ERROR" : "INTERNAL_ERROR");
  return new Refused(status, word, "A fault was injected here.");
}
