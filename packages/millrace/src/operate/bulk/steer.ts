import type { Asker } from "../../access/may-ask.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { getBulkAction, storedBulk } from "../../inspect/bulk-actions.ts";
import { type Action, audit, operatorOf } from "../../store/actions.ts";
import { abortBulk, resumeBulk } from "../../store/bulk-actions.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { act } from "../act.ts";
import { passInstance } from "./message.ts";
import { assertCarriedOut, startRun, tooMany } from "./start.ts";

/**
 * Halts a bulk action within a second. The actions on completed items are not reversed. Errors: `bulk_action_not_found`;
 * `invalid_transition`, audited as no change, for a bulk action that is not running.
 */
export async function abort(env: EngineEnv, by: Asker, id: string, reason: string) {
  const operator = operatorOf(by);
  const { state } = await getBulkAction(env, by, id);
  const changed = { before: { state }, after: { state: "aborted" } };
  const action: Action = { id: crypto.randomUUID(), verb: "abort", target: id, instanceId: null, reason, ...changed };
  await act(env, operator, action, {
    change: abortBulk(operator, id),
    async refused() {
      const { state: from } = await getBulkAction(env, by, id);
      return { why: `The bulk action is ${from}, so it cannot be aborted.`, from, to: "aborted" };
    },
  });
  return { ...(await getBulkAction(env, by, id)), action_id: action.id };
}

/**
 * Continues a bulk action that was halted, stopped itself or failed. The bulk action continues in its current stage, with the remaining
 * items. Failed items are not repeated. Errors: `bulk_action_not_found`; `invalid_transition`, audited as no change, for a bulk action that
 * is running or complete; `bulk_actions_running`.
 */
export async function resume(env: EngineEnv, catalog: Catalog, by: Asker, id: string, reason: string) {
  assertCarriedOut(catalog);
  const { tenantId } = by;
  const operator = operatorOf(by);
  const { state, pass } = await storedBulk(env, by, id);
  const next = passInstance(tenantId, id, pass + 1);
  const changed = { before: { state }, after: { state: "running" } };
  const action: Action = { id: crypto.randomUUID(), verb: "resume", target: id, instanceId: null, reason, ...changed };
  const change = resumeBulk(operator, id, pass + 1, next);
  const answer = await startRun(env, catalog, { tenantId, id }, pass + 1, [change, audit(operator, action, false)]);
  const bulk = await getBulkAction(env, by, id);
  if (answer && !answer.replayed && bulk.instance_id === next) return { ...bulk, action_id: action.id };
  if (bulk.state === "stopped" || bulk.state === "aborted") throw tooMany(tenantId, { audited: true });
  const from = state === "complete" ? state : bulk.state;
  const why = from === "complete" ? "no items remain. Start another bulk action over the failed items" : "it is running already";
  throw new MillraceError("invalid_transition", `The bulk action is ${from}: ${why}.`, { from, to: "running", audited: true });
}
