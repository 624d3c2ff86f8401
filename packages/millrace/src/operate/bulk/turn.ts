import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint, isSimulatedDeath } from "../../contract/crash-points.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { sql } from "../../contract/sql.ts";
import { shortened } from "../../contract/text.ts";
import type { Commit, Reporting } from "../../guard/step.ts";
import { findBulkAction, type StoredBulk } from "../../inspect/bulk-actions.ts";
import { hideOfTargets } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { type ActionResult, bulkActionId, isOnRecord, selectResults } from "../../store/actions.ts";
import { recordStep } from "../../store/bulk-actions.ts";
import { type BulkItem, insertItems, selectDone, turnFailed } from "../../store/bulk-items.ts";
import { LISTED_TOGETHER, selectList } from "../../store/bulk-lists.ts";
import { query } from "../../store/d1/retry.ts";
import type { ActedOn } from "../../topology/bulk-verb.ts";
import type { AnyBulkVerb, Catalog } from "../../topology/catalog.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { passInstance } from "./message.ts";
import { chunkSize, endedBadly, stageOf, whyStopped } from "./start.ts";
import { bulkVerb, refusalOf } from "./verbs.ts";

/** `on`: more turns follow · `next`: the next instance continues · `over`: the bulk action has ended, or another instance continues it. */
export type Went = "on" | "next" | "over";

export interface Turn extends Reporting {
  readonly env: EngineEnv;
  readonly catalog: Catalog;
  readonly tenantId: string;
  readonly bulkId: string;
  readonly pass: number;
  /** The next instance of the bulk action acts on the remaining items. */
  readonly isLast: boolean;
}

const WAIT_MS = 15_000;
const LOOK_MS = 400;

/**
 * Executes one turn: acts on the next chunk of the stage, or waits for earlier items to end. Returns the rows to write. The write is
 * refused if another instance has continued the bulk action meanwhile. Then the turn is repeated, and returns `over`.
 */
export async function takeTurn(turn: Turn): Promise<Commit<Went>> {
  const { env, tenantId, bulkId, pass, isLast } = turn;
  const bulk = await findBulkAction(env, { tenantId }, bulkId);
  if (bulk?.pass !== pass || bulk.state === "complete") return { output: "over" };
  const from = bulk.matched - bulk.remaining;
  turn.progress({ done: from, of: bulk.matched, text: "items" });
  const stage = stageOf(bulk, bulk.matched, from);
  const isActing = bulk.remaining > 0 && (from > stage.from || bulk.looked >= from);
  const given = givenBy(turn, bulk, from);
  const did = await (isActing ? act(given, stage) : waitForEnds(given));
  await crashPoint("B02 items changed, chunk not recorded", bulkId);
  const acts = await withWhoActed(given.call, did.items);
  const [items, turned] = await Promise.all([shortReasons(given.call, acts), shortReasons(given.call, did.turned)]);
  const { looked } = did;
  if (bulk.state !== "running" && items.length === 0) return { output: "over" };
  const count = (result: BulkItem["result"]) => items.filter((item) => item.result === result).length;
  const [skipped, failed] = [bulk.skipped + count("skipped"), bulk.failed + count("failed") + turned.length];
  const acted = from + items.length;
  const begun = acted - did.stage.from - (skipped - did.stage.skipped);
  const isComplete = looked === bulk.matched && acted === bulk.matched;
  const stop = whyStopped(bulk, { begun, failed: failed - did.stage.failed, left: bulk.matched - acted });
  const state = isComplete ? "complete" : stop !== null ? "stopped" : "running";
  const isNext = state === "running" && isLast;
  const key = { tenantId, id: bulkId };
  return {
    output: isNext ? "next" : state === "running" ? "on" : "over",
    statements: [
      recordStep({
        ...key,
        ...{ pass, from, looked, state, stage: did.stage, turned: turned.length },
        ...{ done: count("done"), skipped: count("skipped"), failed: count("failed") },
        why: isComplete ? endedBadly({ begun: bulk.matched - skipped, failed }) : stop,
        next: isNext ? passInstance(tenantId, bulkId, pass + 1) : null,
      }),
      ...(items.length > 0 ? [insertItems(key, items)] : []),
      ...(turned.length > 0 ? [turnFailed(key, turned)] : []),
    ],
  };
}

type Given = ReturnType<typeof givenBy>;

/** `from`: the position of the next item in the list. */
function givenBy(turn: Turn, bulk: StoredBulk, from: number) {
  const { env, catalog, tenantId } = turn;
  const { id: bulkId, verb, actor, reason, undo, run_at } = bulk;
  const options = { undo: undo ?? undefined, run_at: run_at ?? undefined };
  const call = { env, catalog, by: { tenantId, actor }, reason, options, bulkId };
  return { bulk, from, verb: bulkVerb(catalog, verb), call, isHalted: haltOf(turn, bulk.state !== "running") };
}

/** After an operator has halted the bulk action, or another instance has continued it, the turn acts on no further item. */
function haltOf({ env, tenantId, bulkId, pass }: Turn, wasHalted: boolean): () => Promise<boolean> {
  let halted = wasHalted;
  let nextAt = Date.now() + LOOK_MS;
  return async () => {
    if (halted || Date.now() < nextAt) return halted;
    nextAt = Date.now() + LOOK_MS;
    const bulk = await findBulkAction(env, { tenantId }, bulkId).catch(() => null);
    if (bulk !== null) halted = bulk?.state !== "running" || bulk.pass !== pass;
    return halted;
  };
}

async function act(given: Given, stage: { from: number; to: number }) {
  const { bulk, verb, call, from } = given;
  const listed = await listedOf(call, from, chunkSize(bulk, stage.to - from));
  const targets = listed.map((one) => verb.listing?.read(one) ?? one);
  const items = await actOn(given, targets);
  // The next turns look at these items, once they are recorded.
  const seen = await look(given, verb.outcomes === undefined ? from + items.length : from);
  // The error rate is computed from the start of the stage, or from the last resume within the stage.
  return { ...seen, items, stage: from === stage.from ? { from, skipped: bulk.skipped, failed: bulk.failed } : bulk.stage };
}

async function waitForEnds(given: Given) {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const seen = await look(given, given.from);
    const hasEnded = seen.looked >= given.from || seen.turned.length > 0;
    if (hasEnded || Date.now() > deadline || (await given.isHalted())) return { ...seen, items: [], stage: given.bulk.stage };
    await scheduler.wait(LOOK_MS);
  }
}

/** The items at the next positions of the list, as far as one stored row has them, so perhaps fewer than `count`. */
async function listedOf({ env, by, bulkId }: Given["call"], from: number, count: number): Promise<string[]> {
  const [list] = await query<{ n: number; ids: string }>(env.DB, selectList({ tenantId: by.tenantId, id: bulkId }, from));
  const ids = list === undefined ? [] : (JSON.parse(list.ids) as string[]);
  const place = list === undefined ? 0 : from % LISTED_TOGETHER;
  const some = ids.slice(place, place + count);
  if (some.length > 0) return some;
  throw new MillraceError("invariant", `Bulk action ${bulkId} has no list for position ${from}. Please report this.`);
}

/** The results are kept longer than the messages, so the sensitive values in their reasons are redacted now, not at a later read. */
async function shortReasons<Item extends Pick<BulkItem, "target" | "why">>(
  { env, catalog, by }: BulkCall,
  items: readonly Item[],
): Promise<Item[]> {
  const ids = items.flatMap(({ target, why }) => (why === null ? [] : target));
  const hide = await hideOfTargets(env, { ...by, scopes: [] }, redactionOf(catalog), ids);
  return items.map((one) => (one.why === null ? one : { ...one, why: shortened(hide(one.target)(one.why), 300) }));
}

/** Adds to each skipped item the operator who acted on it, the action and the time. */
async function withWhoActed({ env, by }: BulkCall, items: readonly BulkItem[]): Promise<BulkItem[]> {
  const skipped = items.flatMap(({ result, target }) => (result === "skipped" ? [target] : []));
  if (skipped.length === 0) return [...items];
  const rows = await query<{ target: string; last: string | null }>(
    env.DB,
    sql`
      SELECT value AS target, (
        SELECT json_object('actor', actor, 'verb', verb, 'at', at) FROM millrace_actions INDEXED BY millrace_actions_by_target
        WHERE tenant_id = ${by.tenantId} AND target = value AND result = 'applied' ORDER BY at DESC, id DESC LIMIT 1) AS last
      FROM json_each(${JSON.stringify(skipped)})`,
  );
  const lastOf = new Map(rows.map(({ target, last }) => [target, last]));
  return items.map((item) => {
    const last = item.result === "skipped" ? lastOf.get(item.target) : undefined;
    if (!last) return item;
    const { actor, verb, at } = JSON.parse(last) as { actor: string; verb: string; at: number };
    const time = new Date(at).toISOString().replace(/\.\d+Z$/, "Z");
    const who = `Last action by ${actor}: ${verb.replaceAll("_", " ")}, ${time}.`;
    return { ...item, why: [who, item.why].filter(Boolean).join(" ") };
  });
}

const TOGETHER = 200;

/**
 * Reads the outcomes of the next recorded items before position `to`, in the order in which the items were acted on. An item that exceeds
 * its time limit counts as done and delays no later item. Each item before the position `looked` has ended or has exceeded its time limit.
 */
async function look({ bulk, verb, call }: Given, to: number) {
  const turned: Pick<BulkItem, "n" | "target" | "code" | "why">[] = [];
  if (verb.outcomes === undefined) return { looked: to, turned };
  const key = { tenantId: call.by.tenantId, id: call.bulkId };
  for (let at = bulk.looked; ; ) {
    const some = await query<ActedOn & { n: number; ageMs: number }>(call.env.DB, selectDone(key, at, TOGETHER));
    if (some.length === 0) return { looked: to, turned };
    const outcomes = await verb.outcomes(call, some);
    let isOpen = false;
    for (const { n, id, ageMs } of some) {
      const outcome = outcomes.get(id);
      if (outcome === "open") isOpen ||= ageMs < bulk.settle_within_seconds * 1000;
      else if (outcome !== undefined) turned.push({ n, target: id, ...outcome });
      if (!isOpen) at = n + 1;
    }
    if (isOpen) return { looked: at, turned };
    if (some.length < TOGETHER) return { looked: to, turned };
  }
}

/** An invocation may have six open connections, so two more calls may compute without a connection. */
const AT_ONCE = 8;
/** The time in milliseconds after which a chunk acts on no further item. The next chunk acts on the remaining items. */
const BEGIN_WITHIN_MS = 20_000;

/**
 * Acts on a chunk's items in order, at the given rate. Returns one result for each item up to the last item that was acted on. Repeating a
 * chunk is safe, because the action on each item is recorded under an id that only this item has. Errors: `unavailable`, thrown after every
 * call has ended.
 */
async function actOn(given: Given, targets: readonly string[]): Promise<BulkItem[]> {
  const { bulk, call, from, isHalted } = given;
  const known = await recorded(call, targets);
  const startedAt = Date.now();
  const due = (place: number) => startedAt + (place * 1000) / bulk.rate_per_second;
  const items: BulkItem[] = [];
  const failures: unknown[] = [];
  const underWay = new Set<Promise<void>>();
  const isOver = async () => failures.length > 0 || Date.now() > startedAt + BEGIN_WITHIN_MS || (await isHalted());
  for (const [place, target] of targets.entries()) {
    const before = known.get(bulkActionId(call.bulkId, target));
    if (before === undefined) {
      await isTime(due(place), isOver);
      while (underWay.size >= AT_ONCE) await Promise.race(underWay);
      if (await isOver()) break;
    }
    const one = resultOf(given, target, before)
      .then((result) => {
        items.push({ n: from + place, target, ...result });
        return crashPoint("B01 one item changed, chunk not over", call.bulkId);
      })
      .catch((error: unknown) => void failures.push(error))
      .finally(() => underWay.delete(one));
    underWay.add(one);
  }
  await Promise.all(underWay);
  if (failures.length > 0) throw failures[0];
  if (items.length === targets.length) await isTime(due(items.length), isOver);
  return items.toSorted((a, b) => a.n - b.n);
}

async function isTime(at: number, isOver: () => Promise<boolean>): Promise<void> {
  for (let left = at - Date.now(); left > 0 && !(await isOver()); left = at - Date.now()) await scheduler.wait(Math.min(left, 200));
}

type Result = Pick<BulkItem, "result" | "code" | "why">;

async function resultOf({ verb, call }: Given, target: string, known: ActionResult | undefined): Promise<Result> {
  const actionId = bulkActionId(call.bulkId, target);
  const own: BulkCall = { ...call, by: { ...call.by, bulk: { id: call.bulkId, actionId } } };
  if (known) return asRecorded(verb, own, target, known);
  try {
    const { changed, why = null } = await verb.act(own, target);
    return changed ? { result: "done", code: null, why: null } : { result: "skipped", code: null, why };
  } catch (error) {
    if (isSimulatedDeath(error) || codeOf(error) === "unavailable") throw error;
    if (isOnRecord(error)) {
      const found = (await recorded(call, [target])).get(actionId);
      if (found) return asRecorded(verb, own, target, found);
    }
    const why = messageOf(error);
    const code = codeOf(error) ?? "step_failed";
    if (code === "invalid_transition" && (await verb.isSpent?.(own, target))) return { result: "skipped", code: null, why };
    return { result: "failed", code, why };
  }
}

/** The result of an action that an earlier attempt at the chunk recorded before a crash. */
async function asRecorded(verb: AnyBulkVerb, call: BulkCall, target: string, known: ActionResult): Promise<Result> {
  if (known === "applied") return { result: "done", code: null, why: null };
  if (known === "failed") return { result: "failed", code: "unavailable", why: NOT_ACCEPTED };
  if (await verb.isSpent?.(call, target)) return { result: "skipped", code: null, why: "No change was needed." };
  const now = await refusalOf(verb, call, target);
  const why = now === null ? `${REFUSED} The action would be accepted now: repeat it.` : `${REFUSED} ${now}`;
  return { result: "failed", code: "invalid_transition", why };
}

const NOT_ACCEPTED = "The action was recorded, but the platform did not accept it for 24 hours, and it had no effect: repeat the action.";
const REFUSED = "The action was refused and changed nothing.";

async function recorded({ env, by, bulkId }: Given["call"], targets: readonly string[]): Promise<ReadonlyMap<string, ActionResult>> {
  const ids = targets.map((target) => bulkActionId(bulkId, target));
  const rows = await query<{ id: string; result: ActionResult }>(env.DB, selectResults(by.tenantId, ids));
  return new Map(rows.map(({ id, result }) => [id, result]));
}
