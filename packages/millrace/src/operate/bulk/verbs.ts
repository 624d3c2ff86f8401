import type { Asker } from "../../access/may-ask.ts";
import { MillraceError } from "../../contract/errors.ts";
import { outboxId } from "../../contract/ids.ts";
import { nearest } from "../../contract/nearest.ts";
import { among, sql } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import { getDeadLetter } from "../../inspect/dead-letters.ts";
import { bulkActionId } from "../../store/actions.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { query } from "../../store/d1/retry.ts";
import type { ActedOn, Outcome } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb, Catalog } from "../../topology/catalog.ts";
import { type BulkCall, defineBulkVerb } from "../../topology/define-bulk-verb.ts";
import { planReplay, replayDeadLetter } from "../letters/replay.ts";
import { skipDeadLetter } from "../letters/settle.ts";
import { DOUBT_VERBS } from "./doubt-verbs.ts";
import { letterFilter, letterMembers, unknownOfLetters } from "./filters.ts";
import { BECAME, type Became, INSTANCE_VERBS, outcomeOf } from "./instance-verbs.ts";

/** A bulk action reads only dead letters of its tenant, and makes no corrections. */
const readerOf = ({ by }: BulkCall) => ({ ...by, scopes: ["operate"] });

const ofLetters = {
  noun: "dead letters",
  filter: letterFilter,
  members: letterMembers,
  unknown: unknownOfLetters,
  async isSpent({ env, by }: BulkCall, id: string) {
    return (
      (
        await query(
          env.DB,
          sql`SELECT 1 FROM millrace_dead_letters
        WHERE id = ${id} AND tenant_id = ${by.tenantId} AND state <> 'open'`,
        )
      ).length > 0
    );
  },
};

const skipLetters = defineBulkVerb({
  ...ofLetters,
  name: "skip",
  follows: "Final: a skipped dead letter cannot be replayed. If its command never started, the command is skipped too.",
  async act(call, id) {
    const { skipped } = await skipDeadLetter(call.env, call.catalog, readerOf(call), id, call.reason);
    return skipped ? { changed: true } : { changed: false, why: "The dead letter was replayed or skipped before: no change was needed." };
  },
  async refusal(call, id) {
    await getDeadLetter(call.env, readerOf(call), id);
    return null;
  },
});

const replayLetters = defineBulkVerb({
  ...ofLetters,
  name: "replay",
  async act(call, id) {
    const { sent, why } = await replayDeadLetter(call.env, call.catalog, readerOf(call), id, { reason: call.reason });
    return { changed: sent, why };
  },
  async refusal(call, id) {
    const { outcome, why } = await planReplay(call.env, call.catalog, readerOf(call), id, undefined);
    return outcome === "refused" ? why : null;
  },
  outcomes: sentAgain,
});

/** A replayed dead letter, with the key of the message and the instance that the message's command started. */
interface Replayed extends Partial<Became> {
  id: string;
  mark: string;
  instance_id: string | null;
  tenant_id: string;
  message_type: string;
  idempotency_key: string;
  causation_id: string;
}

/** Maximum time between the first message that a chunk sends and the record of the chunk's results, in milliseconds. */
const LATEST_MS = 180_000;

/**
 * The outcomes of replayed messages. The outcome of a command is the outcome of its instance. An event succeeds if a consumer handled the
 * event. A message that fails again is a new dead letter with the id of the replay.
 */
async function sentAgain({ env, by, bulkId }: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  const marks = acted.map(({ id }) => bulkActionId(bulkId ?? "", id));
  const letters = await query<Replayed & Record<string, unknown>>(
    env.DB,
    sql`
      SELECT a.target AS id, a.id AS mark, a.instance_id, ${BECAME}, d.body->>'tenant_id' AS tenant_id,
        d.body->>'message_type' AS message_type, d.body->>'idempotency_key' AS idempotency_key, d.body->>'causation_id' AS causation_id
      FROM json_each(${JSON.stringify(marks)}) m CROSS JOIN millrace_actions a ON a.id = m.value
        CROSS JOIN millrace_dead_letters d ON d.id = a.target
        LEFT JOIN millrace_instances i ON i.id = a.instance_id AND i.tenant_id = a.tenant_id
      WHERE a.tenant_id = ${by.tenantId}`,
  );
  const outcomes = new Map<string, Outcome>();
  for (const { id, status, error = null } of letters) {
    const outcome = status && outcomeOf({ status, error });
    if (outcome) outcomes.set(id, outcome);
  }
  const events = letters.filter(({ instance_id }) => instance_id === null);
  if (events.length === 0) return outcomes;
  const since = Math.min(...acted.map(({ at }) => at)) - LATEST_MS;
  const rows = new Map(events.map((letter) => [outboxId({ ...letter, replay: letter.mark }), letter.id]));
  const { unsent, again } = await namedBatch(env.DB, {
    unsent: sql`SELECT id FROM millrace_outbox WHERE id IN ${among([...rows.keys()])}`,
    again: sql`
      SELECT body->>'replay' AS mark, reason, error FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_tenant
      WHERE tenant_id = ${by.tenantId} AND state = 'open' AND captured_at >= ${since} AND body->>'replay' IN ${among(marks)}`,
  });
  for (const { id } of unsent) outcomes.set(rows.get(String(id)) ?? "", "open");
  const byMark = new Map(events.map(({ mark, id }) => [mark, id]));
  for (const { mark, reason, error } of again) {
    const why = error === null ? "The message is a dead letter again." : String(error);
    outcomes.set(byMark.get(String(mark)) ?? "", { code: String(reason), why });
  }
  return outcomes;
}

const ENGINE_BULK_VERBS: readonly AnyBulkVerb[] = [...INSTANCE_VERBS, replayLetters, skipLetters, ...DOUBT_VERBS];

function bulkVerbs(catalog: Catalog): readonly AnyBulkVerb[] {
  return [...ENGINE_BULK_VERBS, ...catalog.bulkVerbs];
}

/** Finds the bulk verb with a name. Errors: `invalid_payload` for an unknown name, with the known names. */
export function bulkVerb(catalog: Catalog, name: string): AnyBulkVerb {
  const all = bulkVerbs(catalog);
  const verb = all.find((one) => one.name === name);
  if (verb) return verb;
  const names = all.map((one) => one.name);
  const guess = nearest(name, names);
  const message = `must be one of ${names.join(", ")}${guess ? `: perhaps \`${guess}\` is meant` : ""}`;
  throw new MillraceError("invalid_payload", `"${beginning(name, 64)}" is not a bulk action.`, { issues: [{ path: "verb", message }] });
}

/** Checks the scopes of a token. Errors: `forbidden` for a bulk verb outside these scopes. */
export function assertMayAct({ scopes }: Pick<Asker, "scopes">, { name, scope = "operate" }: AnyBulkVerb): void {
  if (scopes.includes(scope)) return;
  throw new MillraceError("forbidden", `The bulk action ${name} requires the scope \`${scope}\`: use a token with this scope.`);
}
