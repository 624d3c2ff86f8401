import { BURST_MS, hubspotLimits } from "../../providers/hubspot-limits.ts";
import type { CrmAnswer } from "./answers.ts";

/** A recorded call to the embedded CRM, with its response. */
export interface RecordedCall extends Record<string, SqlStorageValue> {
  id: number;
  /** The time of the call in milliseconds since 1970. */
  at: number;
  method: string;
  path: string;
  inputs: number;
  status: number;
  /** The number of the call's inputs that failed. */
  failed: number;
  /** The flag is 1 if the CRM changed its records and only the response was withheld, and otherwise 0. */
  lost: number;
  correlation_id: string;
}

export interface CallReport {
  calls: RecordedCall[];
  total: number;
  refused_by_limit: number;
  /** The maximum number of calls that arrived within any 10 seconds, including refused calls. */
  most_in_10_seconds: number;
}

/** The record of calls to the embedded CRM. The CRM's rate limits are computed from this record. */
export class Calls {
  readonly #sql: SqlStorage;
  readonly #limits: { burst: number; daily: number };

  constructor(sql: SqlStorage, vars: { CRM_BURST?: string; CRM_DAILY?: string }) {
    this.#sql = sql;
    this.#limits = hubspotLimits(vars);
  }

  record(call: Omit<RecordedCall, "id">): void {
    const { at, method, path, inputs, status, failed, lost, correlation_id } = call;
    this.#sql.exec(
      "INSERT INTO calls (at, method, path, inputs, status, failed, lost, correlation_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      at,
      method,
      path,
      inputs,
      status,
      failed,
      lost,
      correlation_id,
    );
  }

  /** Returns HubSpot's rate limit headers, and a refusal if a limit is used up. A refused call does not count toward the limits. */
  limit(now: number, correlationId: string): { headers: Record<string, string>; refused: CrmAnswer | undefined } {
    const { burst, daily } = this.#limits;
    const inWindow = this.#count(now - BURST_MS);
    const today = this.#count(new Date(now).setUTCHours(0, 0, 0, 0) - 1);
    const headers = {
      "X-HubSpot-RateLimit-Daily": String(daily),
      "X-HubSpot-RateLimit-Daily-Remaining": String(Math.max(0, daily - today - 1)),
      "X-HubSpot-RateLimit-Interval-Milliseconds": String(BURST_MS),
      "X-HubSpot-RateLimit-Max": String(burst),
      "X-HubSpot-RateLimit-Remaining": String(Math.max(0, burst - inWindow - 1)),
    };
    const policyName = today >= daily ? "DAILY" : inWindow >= burst ? "TEN_SECONDLY_ROLLING" : undefined;
    if (!policyName) return { headers, refused: undefined };
    const message = `You have reached your ${policyName.toLowerCase()} limit.`;
    const body = { status: "error", message, errorType: "RATE_LIMIT", category: "RATE_LIMITS", correlationId, policyName };
    return { headers, refused: { status: 429, body } };
  }

  report(match: string | undefined): CallReport {
    const calls = this.#sql
      .exec<RecordedCall>("SELECT * FROM calls WHERE ?1 IS NULL OR instr(path, ?1) > 0 ORDER BY id", match ?? null)
      .toArray();
    const times = calls.map(({ at }) => at);
    let most = 0;
    for (let first = 0, last = 0; last < times.length; last++) {
      while ((times[last] ?? 0) - (times[first] ?? 0) >= BURST_MS) first++;
      most = Math.max(most, last - first + 1);
    }
    const refused = calls.filter(({ status, lost }) => status === 429 && lost === 0).length;
    return { calls, total: calls.length, refused_by_limit: refused, most_in_10_seconds: most };
  }

  #count(after: number): number {
    return this.#sql.exec<{ count: number }>("SELECT count(*) AS count FROM calls WHERE at > ? AND status != 429", after).one().count;
  }
}
