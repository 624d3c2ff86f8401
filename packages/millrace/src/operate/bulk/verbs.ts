import type * as z from "zod";
import type { Asker } from "../../access/may-ask.ts";
import { isSimulatedDeath } from "../../contract/crash-points.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { formatEntryKey, outboxId, parseEntryKey } from "../../contract/ids.ts";
import { nearest } from "../../contract/nearest.ts";
import { among, type Fragment, fragment, type Statement, sql } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import { andActivity } from "../../inspect/activity.ts";
import { answersTo, DOUBTED_COLUMNS, type Doubted } from "../../inspect/answers.ts";
import { getDeadLetter } from "../../inspect/dead-letters.ts";
import type { Failure } from "../../replay/failure.ts";
import { bulkActionId } from "../../store/actions.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { query } from "../../store/d1/retry.ts";
import { FAILED, type InstanceStatus, WORKING } from "../../store/instances/status.ts";
import type { ActedOn, BulkPart, Outcome } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb, Catalog } from "../../topology/catalog.ts";
import { type BulkCall, defineBulkVerb } from "../../topology/define-bulk-verb.ts";
import type { InstanceAct } from "../instances/act.ts";
import { INSTANCE_ACTS } from "../instances/acts.ts";
import { planResolve, resolveDoubt } from "../instances/resolve.ts";
import { planReplay, replayDeadLetter, skipDeadLetter } from "../letters/settle.ts";
import { doubtFilter, doubtMembers, instanceFilter, instanceMembers, letterFilter, letterMembers, unknownIn } from "./filters.ts";

/** The bulk verbs of the acts on an instance. A bulk action has the same effect on each item as the HTTP route of the act. */
export const INSTANCE_VERBS: readonly AnyBulkVerb[] = Object.values<InstanceAct>(INSTANCE_ACTS).flatMap(ofInstances);

function ofInstances({ verb, bulk, plan, act }: InstanceAct): AnyBulkVerb[] {
  if (bulk === undefined) return [];
  const { from, usual, activity, needs, given, runs = false, consequence } = bulk;
  const asked = ({ options, ...call }: BulkCall) => ({ ...call, given: { ...(given?.(options) as object), reason: call.reason } });
  return [
    defineBulkVerb({
      name: verb,
      noun: "instances",
      filter: instanceFilter(from, usual),
      members: (by, filter) => instanceMembers(by, filter, activity),
      unknown: (call, filter) => unknownIn(call, filter, "instances"),
      ...(needs && { needs }),
      async act(call, id) {
        await act(asked(call), id);
        return { changed: true };
      },
      refusal: async (call, id) => (await plan(asked(call), id)).refused,
      async isSpent({ env, by }, id) {
        const fitting = sql`
          SELECT 1 FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId} AND status IN ${among(from)}
            ${andActivity(activity)}`;
        return (await query(env.DB, fitting)).length === 0;
      },
      ...(runs && { outcomes: endsOfInstances }),
      ...(consequence && { consequence }),
    }),
  ];
}

/** An item, with the instance that runs because of the action on the item. `status` is null for an item without an instance. */
interface Became {
  readonly id: string;
  readonly status: InstanceStatus | null;
  readonly error: string | null;
}

/**
 * Reads the instances of items: for each item the instance that its audit row names, which may be a new one. In `columns`, `m.value` is an
 * item of `acted`, `a` the audit row and `i` the instance.
 */
function instancesOf({ env, by, bulkId }: BulkCall, acted: readonly { readonly id: string }[], columns: Statement): Promise<unknown[]> {
  const items = acted.map((item) => ({ ...item, action: bulkActionId(bulkId ?? "", item.id) }));
  return query(
    env.DB,
    sql`
      SELECT ${columns} FROM json_each(${JSON.stringify(items)}) m CROSS JOIN millrace_actions a ON a.id = m.value->>'action'
        CROSS JOIN millrace_instances i ON i.id = coalesce(a.detail->>'instance', a.instance_id)
      WHERE +a.tenant_id = ${by.tenantId} AND +i.tenant_id = ${by.tenantId}`,
  );
}

const BECAME = sql`m.value->>'id' AS id, i.status, i.error`;

async function endsOfInstances(call: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  return outcomesOf((await instancesOf(call, acted, BECAME)) as Became[]);
}

function outcomesOf(items: readonly Became[]): Map<string, Outcome> {
  return new Map(items.flatMap(({ id, ...became }) => outcomeOf(became).map((outcome) => [id, outcome] as const)));
}

function outcomeOf({ status, error }: Omit<Became, "id">): Outcome[] {
  if (WORKING.has(status)) return ["open"];
  if (status === "in_doubt") return [{ code: "in_doubt", why: IN_DOUBT }];
  if (status === null || !FAILED.has(status)) return [];
  const { code = status, message = `The instance is ${status}.` } = JSON.parse(error ?? "{}") as Partial<Failure>;
  return [{ code, why: message }];
}

const IN_DOUBT =
  "The instance is in doubt: the outcome of one of its effects is unknown, and an operator must resolve it (GET /v1/effects?state=in_doubt lists it). The instance is blocked until then, and continues automatically afterwards.";

/** Resolutions that can apply to many effects at once. `confirm` is excluded, because each effect needs a different output. */
type Said = "reject" | "retry_anyway";

function ofDoubts(name: Said, consequence: string) {
  return defineBulkVerb({
    name,
    noun: "doubts",
    consequence,
    filter: doubtFilter,
    members: doubtMembers,
    listing: { write: listed, read: keyOf },
    unknown: (call, filter) => unknownIn(call, filter, "instances"),
    parts: (call, members) => byStep(name, call, members),
    async act({ env, by, reason }, key) {
      await resolveDoubt(env, by, key, { verb: name }, reason);
      return { changed: true };
    },
    refusal: async ({ env, by }, key) => (await planResolve(env, by, key, name)).refused,
    isSpent: async ({ env, by }, key) => (await planResolve(env, by, key, name)).isAnswered,
    outcomes: endsOfDoubts,
  });
}

/** The key of an effect as the item list stores it: decoded, because SQLite cannot decode base64. Another string remains unchanged. */
function listed(key: string): string {
  const entry = parseEntryKey(key);
  return JSON.stringify(entry ? [entry.instanceId, entry.step, entry.item, entry.generation] : [key]);
}

function keyOf(inList: string): string {
  const [instanceId, step, item, generation] = JSON.parse(inList) as [string, string?, string?, number?];
  return step === undefined || item === undefined || generation === undefined
    ? instanceId
    : formatEntryKey({ instanceId, step, item, generation });
}

const isListed = (id: Fragment) => sql`
  e.instance_id = ${id}->>0 AND e.step = ${id}->>1 AND e.item = ${id}->>2 AND e.generation = ${id}->>3`;

interface OfStep extends Doubted {
  readonly workflow: string | null;
  readonly step: string;
  readonly count: number;
}

/** Groups unknown outcomes by step and by the consequence of the resolution, which depends on the status of the instance. */
async function byStep(name: Said, { env, by }: BulkCall, members: Statement): Promise<BulkPart[]> {
  const rows = await query<OfStep>(
    env.DB,
    sql`
      SELECT i.workflow, e.step, ${DOUBTED_COLUMNS}, count(*) AS count
      FROM (${members}) t LEFT JOIN millrace_inbox e ON ${isListed(fragment("t.id"))} AND e.state = 'in_doubt'
        LEFT JOIN millrace_instances i ON i.id = e.instance_id AND +i.tenant_id = ${by.tenantId}
      GROUP BY i.workflow, e.step, i.status, i.undo IS NULL, takes_back, e.undoable, runs_no_more, happened`,
  );
  const parts = rows.map((row) => ({ ...saidOf(name, row), count: row.count }));
  return [...Map.groupBy(parts, ({ what, consequence }) => JSON.stringify([what, consequence])).values()]
    .flatMap((same) => same.slice(0, 1).map((one) => ({ ...one, count: same.reduce((sum, { count }) => sum + count, 0) })))
    .toSorted((a, b) => b.count - a.count);
}

function saidOf(name: Said, { workflow, step, ...doubted }: OfStep): Omit<BulkPart, "count"> {
  if (workflow === null)
    return { what: "no effect in doubt", consequence: "No change: the outcome is resolved already, or the effect does not exist." };
  const { reject, retry } = answersTo(doubted);
  return { what: `${workflow} · ${step}`, consequence: name === "reject" ? (reject ?? HAPPENED) : (retry ?? RUNS_NO_MORE) };
}

const HAPPENED =
  "Refused: the effect happened, but the rows that it records were refused. Confirm each such effect on its own, with its output.";
const RUNS_NO_MORE = "Refused: no run would execute the effect again. Reject it, to record the outcome.";

/**
 * An instance that had failed before the resolution does not run. An instance that waits for another unknown outcome counts as a success.
 */
async function endsOfDoubts(call: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  const items = acted.map((item) => ({ ...parseEntryKey(item.id), id: item.id }));
  const rows = (await instancesOf(
    call,
    items,
    sql`${BECAME}, i.updated_at >= a.at AS moved, EXISTS (SELECT 1 FROM millrace_inbox e
        WHERE e.instance_id = i.id AND e.step = m.value->>'step' AND e.item = m.value->>'item' AND e.state = 'in_doubt') AS again`,
  )) as (Became & { again: number; moved: number })[];
  const isOther = ({ status, again, moved }: (typeof rows)[number]) =>
    (status === "in_doubt" && again === 0) || (FAILED.has(status) && moved === 0);
  return outcomesOf(rows.filter((row) => !isOther(row)));
}

const DOUBT_VERBS = [
  ofDoubts(
    "reject",
    "You state that none of these effects happened. An effect that did happen then happens twice, and this cannot be undone: check the receiving side first.",
  ),
  ofDoubts(
    "retry_anyway",
    "You state that the outcomes cannot be determined. Each effect that did happen then happens twice, and this cannot be undone. The audit log records that you accepted this.",
  ),
];

/** A bulk action reads only dead letters of its tenant, and makes no corrections. */
const readerOf = ({ by }: BulkCall) => ({ ...by, scopes: ["operate"] });

const ofLetters = {
  noun: "dead letters",
  filter: letterFilter,
  members: letterMembers,
  unknown: (call: BulkCall, filter: z.infer<typeof letterFilter>) => unknownIn(call, filter, "dead-letters"),
  async isSpent({ env, by }: BulkCall, id: string) {
    const settled = sql`SELECT 1 FROM millrace_dead_letters WHERE id = ${id} AND tenant_id = ${by.tenantId} AND state <> 'open'`;
    return (await query(env.DB, settled)).length > 0;
  },
};

const skipLetters = defineBulkVerb({
  ...ofLetters,
  name: "skip",
  consequence: "Final: a skipped dead letter cannot be replayed. If its command never started, the command is skipped too.",
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
  outcomes: endsOfLetters,
});

/** A replayed dead letter, with the identity of the message and the instance that the message's command started. */
interface Replayed extends Became, Pick<Envelope, "tenant_id" | "message_type" | "idempotency_key" | "causation_id"> {
  readonly replay: string;
  readonly instance_id: string | null;
}

/** Maximum time between the first message that a chunk sends and the record of the chunk's results, in milliseconds. */
const LATEST_MS = 180_000;

/**
 * The outcome of a command is the outcome of its instance. An event succeeds if a consumer handled it. A message that fails again is a new
 * dead letter with the id of the replay.
 */
async function endsOfLetters({ env, by, bulkId }: BulkCall, acted: readonly ActedOn[]): Promise<ReadonlyMap<string, Outcome>> {
  const letters = await query<Replayed>(
    env.DB,
    sql`
      SELECT a.target AS id, a.id AS replay, a.instance_id, i.status, i.error, d.body->>'tenant_id' AS tenant_id,
        d.body->>'message_type' AS message_type, d.body->>'idempotency_key' AS idempotency_key, d.body->>'causation_id' AS causation_id
      FROM json_each(${JSON.stringify(acted.map(({ id }) => bulkActionId(bulkId ?? "", id)))}) m
        CROSS JOIN millrace_actions a ON a.id = m.value CROSS JOIN millrace_dead_letters d ON d.id = a.target
        LEFT JOIN millrace_instances i ON i.id = a.instance_id AND i.tenant_id = a.tenant_id
      WHERE a.tenant_id = ${by.tenantId}`,
  );
  const outcomes = outcomesOf(letters);
  const events = letters.filter(({ instance_id }) => instance_id === null);
  if (events.length === 0) return outcomes;
  const since = Math.min(...acted.map(({ at }) => at)) - LATEST_MS;
  const rows = new Map(events.map((letter) => [outboxId(letter), letter.id]));
  const byReplay = new Map(events.map(({ replay, id }) => [replay, id]));
  const { unsent, again } = await namedBatch(env.DB, {
    unsent: sql`SELECT id FROM millrace_outbox WHERE id IN ${among([...rows.keys()])}`,
    again: sql`
      SELECT body->>'replay' AS replay, reason, error FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_tenant
      WHERE tenant_id = ${by.tenantId} AND state = 'open' AND captured_at >= ${since}
        AND body->>'replay' IN ${among([...byReplay.keys()])}`,
  });
  for (const { id } of unsent) outcomes.set(rows.get(String(id)) ?? "", "open");
  for (const { replay, reason, error } of again) {
    const why = error === null ? "The message is a dead letter again." : String(error);
    outcomes.set(byReplay.get(String(replay)) ?? "", { code: String(reason), why });
  }
  return outcomes;
}

const ENGINE_BULK_VERBS: readonly AnyBulkVerb[] = [...INSTANCE_VERBS, replayLetters, skipLetters, ...DOUBT_VERBS];

/** Errors: `invalid_payload` for an unknown name, with the known names. */
export function bulkVerb(catalog: Catalog, name: string): AnyBulkVerb {
  const all = [...ENGINE_BULK_VERBS, ...catalog.bulkVerbs];
  const verb = all.find((one) => one.name === name);
  if (verb) return verb;
  const names = all.map((one) => one.name);
  const guess = nearest(name, names);
  const message = `must be one of ${names.join(", ")}${guess ? `: perhaps \`${guess}\` is meant` : ""}`;
  throw new MillraceError("invalid_payload", `"${beginning(name, 64)}" is not a bulk action.`, { issues: [{ path: "verb", message }] });
}

/** The reason why the action on an item would be refused now. Errors: `unavailable`. */
export async function refusalOf(verb: AnyBulkVerb, call: BulkCall, id: string): Promise<string | null> {
  try {
    return (await verb.refusal?.(call, id)) ?? null;
  } catch (error) {
    if (isSimulatedDeath(error) || codeOf(error) === "unavailable") throw error;
    return messageOf(error);
  }
}

/** Errors: `forbidden` for a bulk verb outside the token's scopes. */
export function assertMayAct({ scopes }: Pick<Asker, "scopes">, { name, scope = "operate" }: AnyBulkVerb): void {
  if (scopes.includes(scope)) return;
  throw new MillraceError("forbidden", `The bulk action ${name} requires the scope \`${scope}\`: use a token with this scope.`);
}
