import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { OperateApi } from "./api.ts";
import { FAILED } from "./orders.ts";

const REASON = "The courier's key is renewed.";
const STAGES = [1, 10, 8];

/** Retries everything else that has failed of a cause by one bulk action, and shows how far it is. */
export async function retryRest(api: OperateApi, { cause, retried }: { cause: string; retried: string }, until: Until): Promise<void> {
  const { matched, stages } = await api.planAll(cause, REASON);
  say(paint("dim", "  POST /v1/bulk-actions, of that cause, dry_run"));
  say(`  ${matched} match; in stages of ${stages.join(", ")}. ${retried} is not among them any more.`);
  if (matched !== FAILED.length - 1 || stages.join() !== STAGES.join()) {
    throw new Refusal(`${matched} match, in stages of ${stages.join(", ")}, instead of ${FAILED.length - 1} in ${STAGES.join(", ")}.`);
  }
  let bulk = await api.retryAll(cause, REASON, "after-the-key");
  const again = await api.retryAll(cause, REASON, "after-the-key");
  if (again.id !== bulk.id) throw new Refusal("The same request under the same key began a second bulk action.");
  say(paint("dim", "\n  POST /v1/bulk-actions, sent twice under one Idempotency-Key, is one. How far it is:"));
  let shown = -1;
  await until(async () => {
    bulk = await api.bulk(bulk.id);
    const { done, left, failed, skipped } = bulk;
    if (done !== shown)
      say(`  ${column(`${done} done`, 9)}${paint("green", "█".repeat(done))}${paint("dim", "░".repeat(left))} ${left} left`);
    shown = done;
    if (done + skipped + failed + left !== bulk.matched)
      throw new Refusal(`Of ${bulk.matched}, ${done + skipped + failed + left} are told.`);
    return bulk.state !== "running";
  }, "the bulk action ends");
  const { state, why, done, skipped, failed } = bulk;
  const causes = await api.causes();
  if (state !== "complete" || done !== matched)
    throw new Refusal(`It is ${state}: ${done} of ${matched} done, ${failed} failed. ${why ?? ""}`);
  if (causes.length > 0) throw new Refusal(`There are ${causes.length} causes of failures still.`);
  say(
    `  ${paint("green", "✓")} ${state}: ${done} of ${matched} done, ${failed} failed, ${skipped} skipped. No cause has an instance any more.`,
  );
}
