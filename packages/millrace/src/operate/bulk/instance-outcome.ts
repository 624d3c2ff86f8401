import { sql } from "../../contract/sql.ts";
import type { Failure } from "../../pass/failure.ts";
import { FAILED, type InstanceStatus, WORKING } from "../../store/instances/status.ts";
import type { Outcome } from "../../topology/bulk-verb.ts";

export interface Became {
  readonly status: InstanceStatus;
  readonly error: string | null;
}

export const BECAME = sql`i.status, i.error`;

export function outcomeOf({ status, error }: Became): Outcome | undefined {
  if (WORKING.has(status)) return "open";
  if (status === "in_doubt") return { code: "in_doubt", why: IN_DOUBT };
  if (!FAILED.has(status)) return undefined;
  const { code = status, message = `The instance is ${status}.` } = JSON.parse(error ?? "{}") as Partial<Failure>;
  return { code, why: message };
}

const IN_DOUBT =
  "The instance is in doubt: the outcome of one of its effects is unknown, and an operator must resolve it (GET /v1/effects?state=in_doubt lists it). The instance is blocked until then, and continues automatically afterwards.";
