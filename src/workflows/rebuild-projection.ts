import { defineWorkflow, ids, notRetryable, type Steps } from "millrace";
import { ProjectionRebuild } from "../messages/batches.ts";
import { type Asked, replayLedgers } from "../steps/replay-ledgers.ts";
import { restoreLedgers, type Stretch } from "../steps/restore-rows.ts";
import type { LedgerPlace } from "../systems/facts/ledger/read-ledgers.ts";

/**
 * Rebuilds, from the tenant's ledgers, either the projection of facts or the data derived from facts, such as budgets and webhooks. New
 * facts continue to arrive, and are not part of the rebuild. The workflow's steps are platform steps, because each step processes a hundred
 * ledgers and takes seconds.
 */
export const rebuildProjection = defineWorkflow({
  name: "rebuild-projection",
  on: ProjectionRebuild,
  run: ({ step, payload: { projection }, envelope: { tenant_id: tenantId } }) =>
    projection === "facts" ? restoreAll(step, tenantId) : replayAll(step, tenantId),
});

async function restoreAll(step: Steps, tenantId: string) {
  const all = { ledgers: 0, facts: 0, restored: 0, removed: 0 };
  let unfit = 0;
  let firstUnfit: string | null = null;
  for (let from: LedgerPlace | null = null, more = true; more; ) {
    const done: Stretch = await step.effect("restore rows", restoreLedgers, { tenantId, from }, { key: keyOf(from) });
    for (const count of Object.keys(all) as (keyof typeof all)[]) all[count] += done[count];
    unfit += done.unfit;
    firstUnfit ??= done.firstUnfit;
    from = done.next;
    more = from !== null;
  }
  if (firstUnfit !== null) throw unfitFacts(unfit, firstUnfit);
  return all;
}

/**
 * Starts the replay of all ledgers. The function ends after the call of the last ledger, when messages may still be in transit. Each
 * ledger's state shows the progress of its messages.
 */
async function replayAll(step: Steps, tenantId: string) {
  let ledgers = 0;
  for (let after: string | null = ""; after !== null; ) {
    const key = keyOf(after === "" ? null : { entity: after, sequence: null });
    const asked: Asked = await step.effect("replay ledgers", replayLedgers, { tenantId, after }, { key });
    ledgers += asked.ledgers;
    after = asked.after;
  }
  return { ledgers };
}

/**
 * Maximum length of a ledger's name that a step's key contains unchanged. With this length, the key also has room for the step's name and
 * the position.
 */
const MAX_SHOWN_CHARACTERS = 170;

function keyOf(from: LedgerPlace | null): string {
  if (from === null) return "start";
  const { entity, sequence } = from;
  const name = entity.length <= MAX_SHOWN_CHARACTERS ? entity : `#${ids.digest(entity)}`;
  return sequence === null ? `after ${name}` : `after ${sequence} of ${name}`;
}

function unfitFacts(count: number, first: string): Error {
  return notRetryable(
    `The projection lacks ${count} facts that no longer match their type; all other rows are restored. The first is ${first}. Read it with GET /v1/ledgers, extend its type to accept it, then start a rebuild with a new request.`,
  );
}
