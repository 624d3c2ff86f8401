import type { EngineEnv } from "../contract/bindings.ts";
import { digest } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { auditDone, type Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";

/** A refused request and its reason. */
export interface Attempt {
  /** The refused route, as the OpenAPI document writes it. */
  readonly route: string;
  readonly path: string;
  readonly code: string;
  /** The HTTP status of the refusal. */
  readonly status: number;
}

const MINUTE_MS = 60_000;
/** Maximum number of refusal counters in memory. The oldest counters are removed first. */
const MAX_COUNTS = 10_000;
/** Maximum number of characters of a path in the audit, because a path may contain ids of any length. */
const MAX_PATH = 300;

/** The number of refusals in this isolate for each caller, route, error code and minute. */
const counts = new Map<string, number>();

/**
 * Audits a refused request with bounded writes. For each caller, route, error code and minute, the 1st, 10th, 100th … refusal writes a row
 * with the count. Ten thousand refusals thus write five rows.
 */
export async function refused(env: Pick<EngineEnv, "DB">, by: Operator & { id: string }, attempt: Attempt): Promise<void> {
  const { route, path, code, status } = attempt;
  const minute = Math.floor(Date.now() / MINUTE_MS);
  const key = `${by.tenantId}/${by.id}/${minute}/${code}/${route}`;
  const times = (counts.get(key) ?? 0) + 1;
  const [oldest = ""] = counts.size >= MAX_COUNTS ? counts.keys() : [];
  counts.delete(oldest);
  counts.set(key, times);
  if (!/^10*$/.test(String(times))) return;
  const action = {
    id: digest("refused", key, String(times)),
    verb: "attempt",
    target: beginning(path, MAX_PATH),
    instanceId: null,
    reason: "",
  };
  await query(env.DB, auditDone(by, { ...action, detail: { route, code, status, times } }, "refused"));
}
