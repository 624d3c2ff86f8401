import type { EngineEnv } from "../contract/bindings.ts";
import { inCell } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { iso, isoOrNull } from "../contract/row.ts";
import { sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Action, Operator } from "../store/actions.ts";
import { muteAlert, unmuteAlert } from "../store/alerts.ts";
import { query } from "../store/d1/retry.ts";
import { act } from "./act.ts";

/** Maximum time for which an alert can be muted, in milliseconds. The retention of an ended alert is equally long. */
export const MAX_MUTE_MS = 30 * 86_400_000;

/**
 * Mutes an alert, and later alerts of its rule and group, until the time `until` in milliseconds since 1970. Null ends the mute. A muted
 * alert stays in the list. The action is audited under the operator's tenant, in the first cell. Errors: `alert_not_found`.
 */
export async function mute(given: EngineEnv, by: Operator, id: string, until: number | null, reason: string) {
  const env = inCell(given);
  const actionId = crypto.randomUUID();
  const detail = until === null ? {} : { until: iso(until) };
  const [found] = await query<{ muted: number | null }>(env.DB, sql`SELECT muted_until AS muted FROM millrace_alerts WHERE id = ${id}`);
  if (!found) throw new MillraceError("alert_not_found", `There is no alert ${beginning(id, 64)}. List them with GET /v1/alerts.`);
  const changed = { before: { muted_until: isoOrNull(found.muted) }, after: { muted_until: isoOrNull(until) } };
  const verb = until === null ? "unmute" : "mute";
  const action: Action = { id: actionId, verb, target: id, instanceId: null, reason, detail, ...changed };
  const { isApplied } = await act(env, by, action, { change: until === null ? unmuteAlert(id) : muteAlert(id, until, reason) });
  return { action_id: actionId, changed: isApplied };
}
