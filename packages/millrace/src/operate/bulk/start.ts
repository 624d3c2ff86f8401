import * as z from "zod";
import type { Asker } from "../../access/may-ask.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { issuesIn } from "../../contract/envelope.ts";
import { type ErrorDetail, MillraceError } from "../../contract/errors.ts";
import { digest, fingerprintOf } from "../../contract/ids.ts";
import { among, type Statement, sql } from "../../contract/sql.ts";
import { BulkAction, findBulkAction, getBulkAction, type StoredBulk, storedBulk } from "../../inspect/bulk-actions.ts";
import { enqueueIf } from "../../intake/accept/enqueue.ts";
import { type Action, audit, operatorOf } from "../../store/actions.ts";
import {
  abortBulk,
  type BulkAsked,
  countList,
  insertBulk,
  isMade,
  isWorkedOnBy,
  MAX_RUNNING,
  type NewBulk,
  resumeBulk,
} from "../../store/bulk-actions.ts";
import { type BulkKey, freezeMembers, listIds, MAX_MATCHED } from "../../store/bulk-lists.ts";
import { query } from "../../store/d1/retry.ts";
import type { BulkOptions } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb, Catalog } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { act, invalid } from "../act.ts";
import { BulkActionRun, passInstance } from "./message.ts";
import { assertMayAct, bulkVerb, INSTANCE_VERBS, refusalOf } from "./verbs.ts";

const DEFAULTS = { ramp: [1, 10, 100, 1000, 10_000], rate_per_second: 10, stop_at_error_rate: 0.1, settle_within_seconds: 60 } as const;
/** Maximum number of items per second. The platform creates and restarts at most 100 instances of a workflow per second. */
const MAX_RATE = 100;
const MAX_SETTLE_SECONDS = 600;

/** The results of a chunk are recorded together. A chunk has at most `CHUNK` items, and takes at most `CHUNK_SECONDS` at the rate. */
const CHUNK = 50;
const CHUNK_SECONDS = 2;

/** The stage that contains a position of the item list. At the end of the list it is empty. */
export function stageOf({ ramp }: { readonly ramp: readonly number[] }, matched: number, place: number) {
  let from = 0;
  for (const size of ramp) {
    const to = Math.min(from + size, matched);
    if (place < to) return { from, to };
    from = to;
  }
  return { from: place < matched ? from : matched, to: matched };
}

export function chunkSize({ rate_per_second }: Pick<BulkAction, "rate_per_second">, left: number): number {
  return Math.min(CHUNK, left, Math.max(1, Math.floor(rate_per_second * CHUNK_SECONDS)));
}

/**
 * The reason why a bulk action stops itself, with the operator's next step: too many items of a stage failed. Skipped items do not count.
 */
export function whyStopped(
  { stop_at_error_rate: limit }: Pick<BulkAction, "stop_at_error_rate">,
  { begun, failed, left }: { begun: number; failed: number; left: number },
): string | null {
  if (left === 0 || begun === 0 || failed / begun <= limit) return null;
  return `The bulk action stopped itself: ${failed} of ${begun} items of this stage failed, and the limit is ${Math.round(limit * 1000) / 10} %. ${READ}, fix the cause, and resume it: it continues with the ${left} that ${left === 1 ? "remains" : "remain"}. It does not repeat failed items: start another bulk action over them.`;
}

export function endedBadly({ begun, failed }: { begun: number; failed: number }): string | null {
  if (failed === 0 || failed < begun) return null;
  return `${failed === 1 ? "The only one" : `All ${failed}`} failed. ${READ}, fix the cause, and start another bulk action over the failed items.`;
}

const READ = "Read the reason of each failure (items with the result failed)";

const OF_INSTANCES = INSTANCE_VERBS.map(({ name }) => `\`${name}\``).join(", ");

const MAX_IDS = 10_000;

export const BulkRequest = z.object({
  verb: z
    .string()
    .min(1)
    .max(32)
    .meta({
      description: `The action on each item: ${OF_INSTANCES}, \`replay\`, \`skip\`, \`reject\`, \`retry_anyway\`, or a verb of this deployment.`,
    }),
  filter: z.record(z.string(), z.unknown()).optional().meta({
    description:
      "Selects items that exist when the request arrives; `{}` selects all. Fields for instances: `status` (default `errored` for `retry` and `close`, `paused` for `resume`, `accepted` for `move` and `release`; otherwise required), `workflow`, `subject`, `correlation`, `tag`, `since`, `until`, and for instances that may be errored also `cause`, `undone`. Fields for dead letters (`replay`, `skip`): `queue`, `message_type`, `reason`, `cause`, `since`, `until`. Fields for unknown outcomes (`reject`, `retry_anyway`): `workflow`, `step`, `subject`, `correlation`, `since`, `until`.",
  }),
  ids: z
    .array(z.string().regex(/^[A-Za-z0-9_-]{1,4000}$/, "must be an id"))
    .min(1)
    .max(MAX_IDS)
    .optional(),
  undo: z
    .boolean()
    .optional()
    .meta({ description: "For `cancel`: true undoes the effects of the instances where possible, false keeps them. Default true." }),
  run_at: z.iso.datetime({ offset: true }).optional().meta({ description: "For `move`: the new due time of the delayed commands." }),
  at_most: z.int().min(1).max(MAX_MATCHED).optional().meta({
    description:
      "The highest number of items, such as the count of a dry run. If more items match, the request is refused. Default 100,000.",
  }),
  ramp: z
    .array(z.int().min(1).max(MAX_MATCHED))
    .max(20)
    .optional()
    .meta({ description: `The sizes of the first stages; the last stage has the remaining items. Default ${DEFAULTS.ramp.join(", ")}.` }),
  rate_per_second: z
    .number()
    .min(0.1)
    .max(MAX_RATE)
    .optional()
    .meta({ description: `Items per second. Default ${DEFAULTS.rate_per_second}.` }),
  stop_at_error_rate: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .meta({
      description: `The share of failed items in a stage above which the bulk action stops. Default ${DEFAULTS.stop_at_error_rate}; 1 never stops.`,
    }),
  settle_within_seconds: z
    .int()
    .min(0)
    .max(MAX_SETTLE_SECONDS)
    .optional()
    .meta({
      description: `Seconds to wait for the items of a stage to end before the next stage starts. Default ${DEFAULTS.settle_within_seconds}.`,
    }),
});
export type BulkRequest = z.input<typeof BulkRequest> & { reason: string };

const SAMPLE = 10;

export const BulkPlan = z
  .object({
    matched: z.int(),
    sample: z.array(
      z.object({
        id: z.string(),
        refused: z
          .string()
          .nullable()
          .meta({ description: "Why the action on the item would be refused now; null if it would be accepted." }),
      }),
    ),
    stages: z.array(z.int()).meta({ description: "The number of items of each stage." }),
    parts: z
      .array(z.object({ what: z.string(), count: z.int(), consequence: z.string() }))
      .meta({ description: "For unknown outcomes: the count of each step and the consequence. Empty for other verbs." }),
    consequence: z.string().nullable().meta({ description: "A warning, such as that the action is final; null if there is none." }),
  })
  .meta({ id: "BulkPlan" });

/** Dry run of a bulk action. Errors: as `startBulk`. */
export async function planBulk(env: EngineEnv, catalog: Catalog, by: Asker, request: BulkRequest): Promise<z.infer<typeof BulkPlan>> {
  const meant = read(catalog, by, request);
  const { verb, members, ids, asked } = meant;
  const call = callOf(env, catalog, by, request);
  const { matched, first } = await count(meant, call);
  const things = ids ? sql`SELECT value AS id FROM ${among(ids)}` : members;
  const named = first.map((listed) => verb.listing?.read(listed) ?? listed);
  const sample = await Promise.all(named.map(async (id) => ({ id, refused: await refusalOf(verb, call, id) })));
  const stages: number[] = [];
  for (let place = 0; place < matched; ) {
    const { to } = stageOf(asked, matched, place);
    stages.push(to - place);
    place = to;
  }
  const consequence = typeof verb.consequence === "function" ? await verb.consequence(call, things) : verb.consequence;
  const parts = [...((await verb.parts?.(call, things)) ?? [])];
  return { matched, sample, stages, parts, consequence: consequence ?? null };
}

function callOf(env: EngineEnv, catalog: Catalog, by: Asker, { reason, undo, run_at }: BulkRequest): BulkCall {
  return { env, catalog, by: operatorOf(by), reason, options: { undo, run_at }, bulkId: null };
}

export const StartedBulk = BulkAction.extend({ replayed: z.boolean() }).meta({ id: "StartedBulkAction" });

/**
 * Starts a bulk action. One write stores the present list of items, the command that executes the bulk action, and the audit row. A
 * repeated request with the same key changes nothing. Errors: `invalid_payload` for an unknown verb, an invalid filter or id, and for more
 * than 100,000 items; `forbidden`; `idempotency_key_reused`; `more_matched`; `bulk_actions_running` if the tenant has the maximum number of
 * running bulk actions; `config_invalid` without a consumer of `bulk-action`.
 */
export async function startBulk(env: EngineEnv, catalog: Catalog, by: Asker, request: BulkRequest, key: string | undefined) {
  const { tenantId } = by;
  const meant = read(catalog, by, request);
  const { verb, members, ids, asked } = meant;
  const fingerprint = fingerprintOf({ verb: verb.name, reason: request.reason, asked, ids: ids ?? null });
  const id = key === undefined ? digest("bulk", crypto.randomUUID()) : digest("bulk", tenantId, key);
  const known = key === undefined ? undefined : await findBulkAction(env, by, id);
  if (known) return { ...assertSame(known, fingerprint), replayed: true };
  const { matched } = await count(meant, callOf(env, catalog, by, request));
  const { at_most: atMost = MAX_MATCHED } = request;
  if (matched > atMost) {
    const said = `${matched} items match now, and \`at_most\` is ${atMost}: count them again with \`dry_run\`, then send the new number.`;
    throw new MillraceError("more_matched", said);
  }
  const bulk: NewBulk = { id, verb: verb.name, reason: request.reason, asked, fingerprint, instanceId: passInstance(tenantId, id, 1) };
  const action: Action = {
    id: digest("bulk action", id),
    verb: "bulk",
    target: id,
    instanceId: null,
    reason: request.reason,
    detail: { verb: verb.name, filter: asked.filter, ids: asked.ids, ...optionOf(verb, request) },
  };
  const operator = operatorOf(by);
  const place = { tenantId, id };
  const answer = await startRun(env, catalog, place, 1, [
    insertBulk(operator, bulk),
    ids ? listIds(place, ids) : freezeMembers(place, members, atMost),
    countList(tenantId, id),
    // A request that is refused at the limit gets no audit row, because it may be repeated later with the same id.
    audit(operator, action, false, isMade(tenantId, id)),
  ]);
  const made = await findBulkAction(env, by, id);
  if (made) return { ...assertSame(made, fingerprint), replayed: answer?.replayed === true };
  throw tooMany(tenantId);
}

/** Commits statements and the command of a bulk action's instance, if the statements have made this instance the present one. */
async function startRun(env: EngineEnv, catalog: Catalog, { tenantId, id }: BulkKey, pass: number, also: readonly Statement[]) {
  const answer = await enqueueIf(
    env,
    catalog,
    { tenantId, source: "operator" },
    { type: BulkActionRun.type, payload: { bulk_id: id, pass }, correlationId: id, causationId: `bulk-action/${id}` },
    ({ id: instanceId }) => ({ also, provided: isWorkedOnBy(tenantId, id, instanceId) }),
  );
  if (answer instanceof MillraceError) throw answer;
  return answer;
}

function tooMany(tenantId: string, detail: ErrorDetail = {}): MillraceError {
  return new MillraceError(
    "bulk_actions_running",
    `${MAX_RUNNING} bulk actions of tenant ${tenantId} are running, which is the limit: wait for one to end, or abort one (GET /v1/bulk-actions?state=running lists them).`,
    detail,
  );
}

/** Errors: `config_invalid` if no consumer starts `bulk-action`, with the lines to add to the code. */
function assertCarriedOut(catalog: Catalog): void {
  if (catalog.kindsOf(BulkActionRun.type).includes("command")) return;
  throw new MillraceError(
    "config_invalid",
    "This deployment does not execute bulk actions: add defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] }) to the catalog, and deploy.",
  );
}

function assertSame(bulk: StoredBulk, fingerprint: string): BulkAction {
  if (bulk.fingerprint === fingerprint) return BulkAction.parse(bulk);
  throw new MillraceError(
    "idempotency_key_reused",
    `The key belongs to the different request of bulk action ${bulk.id}. Send this request under another key.`,
  );
}

function read(catalog: Catalog, by: Asker, request: BulkRequest) {
  assertCarriedOut(catalog);
  const verb = bulkVerb(catalog, request.verb);
  assertMayAct(by, verb);
  for (const option of ["undo", "run_at"] as const) {
    if (request[option] === undefined || verb.needs === option) continue;
    const why = option === "undo" ? "undoes no effects" : "moves no due time";
    throw invalid(option, `does not apply to \`${verb.name}\`, which ${why}: remove the field`);
  }
  if (verb.needs === "run_at" && request.run_at === undefined) throw invalid("run_at", "is missing: send the new due time");
  if ((request.filter === undefined) === (request.ids === undefined)) {
    throw invalid("filter", request.ids ? "and `ids` exclude each other: send one of them" : "is missing: send a filter, or `ids` instead");
  }
  const ids = request.ids && [...new Set(request.ids.map((id) => verb.listing?.write(id) ?? id))];
  const filter = request.filter === undefined ? null : readFilter(verb, request.filter);
  const asked: BulkAsked = {
    filter,
    ids: ids?.length ?? null,
    ramp: request.ramp ?? DEFAULTS.ramp,
    rate_per_second: request.rate_per_second ?? DEFAULTS.rate_per_second,
    stop_at_error_rate: request.stop_at_error_rate ?? DEFAULTS.stop_at_error_rate,
    settle_within_seconds: request.settle_within_seconds ?? DEFAULTS.settle_within_seconds,
    ...optionOf(verb, request),
  };
  return { verb, ids, asked, members: ids ? NOTHING : verb.members(operatorOf(by), filter) };
}

function optionOf({ needs }: AnyBulkVerb, { undo = true, run_at }: BulkOptions) {
  return needs === "undo" ? { undo } : needs === "run_at" && run_at !== undefined ? { run_at: new Date(run_at).toISOString() } : {};
}

const NOTHING = sql`SELECT NULL AS id, 0 AS at WHERE false`;

function readFilter(verb: AnyBulkVerb, filter: unknown): Readonly<Record<string, unknown>> {
  const parsed = verb.filter.safeParse(filter);
  if (parsed.success) return parsed.data;
  const issues = issuesIn(verb.filter, filter, parsed.error, ["filter"]);
  throw new MillraceError("invalid_payload", `The filter is not valid for ${verb.noun}: correct the fields in issues.`, {
    issues,
  });
}

/** Errors: `invalid_payload` for too many items, and for an unknown name if a filter matches no item, with the most similar name. */
async function count({ verb, members, ids, asked: { filter } }: ReturnType<typeof read>, call: BulkCall) {
  if (ids) return { matched: ids.length, first: ids.slice(0, SAMPLE) };
  const rows = await query<{ matched: number; first: string }>(
    call.env.DB,
    sql`
      SELECT (SELECT count(*) FROM (SELECT 1 FROM (${members}) LIMIT ${MAX_MATCHED + 1})) AS matched,
        (SELECT json_group_array(id) FROM (SELECT id FROM (${members}) ORDER BY at, id LIMIT ${SAMPLE})) AS first`,
  );
  const { matched = 0, first = "[]" } = rows[0] ?? {};
  if (matched > MAX_MATCHED)
    throw invalid("filter", `matches more than ${MAX_MATCHED}: narrow it, for example with \`since\` and \`until\``);
  const issues = matched === 0 && filter !== null ? ((await verb.unknown?.(call, filter)) ?? []) : [];
  if (issues.length > 0)
    throw new MillraceError("invalid_payload", `The filter contains unknown names: correct the fields in issues.`, { issues });
  return { matched, first: JSON.parse(first) as string[] };
}

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
