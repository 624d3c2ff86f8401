import type { EngineEnv } from "../contract/bindings.ts";
import { digest } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { auditDone, type Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";

/** What somebody wanted, and why they were not let. */
export interface Attempt {
  /** The route, as the document has it. */
  readonly route: string;
  readonly path: string;
  readonly code: string;
  /** The HTTP status of the answer. */
  readonly status: number;
}

const MINUTE_MS = 60_000;
/** Counts kept at once; the oldest go first. */
const MAX_COUNTS = 10_000;
/** A path may hold ids of any length. */
const MAX_PATH = 300;

/** How often each caller was refused at each route within a minute, as far as this isolate knows. */
const counts = new Map<string, number>();

/**
 * Audits an attempt that was refused, within bounds: of one caller, route, answer and minute the first, tenth, hundredth … is a row, which
 * says how many it was. So whoever asks ten thousand times writes five rows.
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
