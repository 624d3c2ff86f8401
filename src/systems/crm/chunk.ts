import { type Commit, type Envelope, notRetryable } from "millrace";
import { ContactSynced } from "../../messages/crm.ts";
import { CRM_BATCH } from "../../providers/index.ts";
import { asError, forgetFailures, noteFailures, waitingAfter } from "./failures.ts";
import { placeOf } from "./keys.ts";
import { type Candidate, candidatesAfter, candidatesByIds, closeLinks, noteRefusals, takeOver, writeLinks } from "./links.ts";
import { changesOf, knownAs } from "./prepare.ts";
import { push } from "./push.ts";
import type { Lost, Pushed } from "./pushed.ts";
import { adoptExpired, type Busy, endSend, inTurn, letGo, orLetGo, type SendKey } from "./sends.ts";
import { advanceSync, findSync } from "./sync.ts";

/** The command that works on a sync. */
export interface SyncCall {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly instanceId: string;
  readonly syncId: string;
  readonly scope: "changed" | "all";
}

/** The state of a sync after a chunk. */
export interface Progress {
  /** The last contact that the chunk processed; null if no contacts remain. */
  next: string | null;
  /** Number of contacts that wait for a retry, from the first chunk to this one. */
  waiting: number;
  /** Set if the chunk was not processed, because an operator must first confirm that these records were deleted. */
  lost?: Lost;
}

/** The state of a sync before a chunk. */
export interface Place {
  /** The last contact that earlier chunks processed. */
  after: string;
  /** Number of contacts of earlier chunks that wait for a retry. */
  waiting: number;
  /** True if an operator has confirmed that missing records were deleted in the CRM. */
  mayCut: boolean;
}

interface Chunk {
  candidates: Candidate[];
  more: boolean;
}

/**
 * Sends the next contacts to the CRM, as many as one call accepts. The calls are repeatable. The results, the links, the failures, the
 * sync's progress and the sync's events are one write.
 */
export async function syncChunk(call: SyncCall, place: Place): Promise<Commit<Progress>> {
  await assertOurs(call);
  const { env, envelope, scope } = call;
  const tenantId = envelope.tenant_id;
  if (place.after === "") await adoptExpired(env.DB, tenantId);
  return inTurn(async () => {
    const page = await candidatesAfter(env.DB, tenantId, place.after, scope);
    const canonical = await knownAs({ env, tenantId }, page.candidates);
    const chunk = cut(env, page, canonical, scope);
    return commitOf(call, chunk, canonical, { ...place, isLast: false, isRetry: false });
  });
}

/** Retries contacts that the CRM refused for the moment. After the last round, contacts that the CRM still refuses have failed. */
export async function retryChunk(call: SyncCall, place: Place, isLast: boolean): Promise<Commit<Progress>> {
  const { env, envelope, syncId } = call;
  const tenantId = envelope.tenant_id;
  // The limit is half a call, because each waiting contact may add the contact that it is an alias of.
  const limit = CRM_BATCH / 2;
  return inTurn(async () => {
    const ids = await waitingAfter(env.DB, { tenantId, syncId }, place.after, limit);
    const candidates = await candidatesByIds(env.DB, tenantId, ids);
    const chunk = { candidates: candidates.sort(byId), more: ids.length === limit };
    return commitOf(call, chunk, await knownAs({ env, tenantId }, candidates), { ...place, isLast, isRetry: true });
  });
}

/**
 * Returns the contacts that fit into one call. Contacts without changes do not count, and a contact whose record must be merged counts as
 * two.
 */
function cut(env: object, { candidates, more }: Chunk, canonical: ReadonlyMap<string, string>, scope: SyncCall["scope"]): Chunk {
  let calls = 0;
  for (const [index, candidate] of candidates.entries()) {
    const { contact, link } = candidate;
    if (canonical.get(contact.contact_id) !== contact.contact_id) calls += link?.crmId || link?.maybe.length ? 2 : 0;
    else if (scope === "all" || Object.keys(changesOf(env, candidate)).length > 0) calls++;
    if (calls > CRM_BATCH) return { candidates: candidates.slice(0, index), more: true };
  }
  return { candidates, more };
}

interface Walk extends Place {
  /** True if no retry of waiting contacts follows. */
  isLast: boolean;
  isRetry: boolean;
}

async function commitOf(
  call: SyncCall,
  { candidates, more }: Chunk,
  canonical: ReadonlyMap<string, string>,
  walk: Walk,
): Promise<Commit<Progress> | Busy> {
  const { env, envelope, instanceId, syncId, scope } = call;
  const tenantId = envelope.tenant_id;
  // In local development all code shares one thread. Without this pause, requests for the sync's progress would not be answered.
  await scheduler.wait(1);
  const key = `${instanceId}/${placeOf(walk.after)}`;
  const send = { tenantId, sendId: key };
  const how = { compare: scope === "all", mayCut: walk.mayCut };
  const pushed = await orLetGo(env.DB, send, () => push({ env, tenantId, key, trace: envelope }, candidates, canonical, how));
  if ("busyUntil" in pushed) return pushed;
  const sync = { tenantId, syncId, scope, instanceId };
  if (pushed.lost) {
    const nothing = { done: 0, skipped: 0, merged: 0, taken: 0, ends: false };
    // Contacts that an earlier attempt reserved are released, because the operator's answer may take days.
    const statements = [...letGo(send), advanceSync(sync, nothing)];
    return { statements, output: { next: walk.after, waiting: walk.waiting, lost: pushed.lost } };
  }
  const waiting = walk.waiting + (walk.isLast ? 0 : pushed.refused.filter(({ retry }) => retry).length);
  const next = more ? (candidates.at(-1)?.contact.contact_id ?? null) : null;
  const owner = { tenantId, syncId };
  const refused = new Set(pushed.refused.map(({ contactId }) => contactId));
  const settled = walk.isRetry
    ? [...pushed.links, ...pushed.merged, ...pushed.cut].flatMap(({ contactId }) => (refused.has(contactId) ? [] : [contactId]))
    : [];
  return {
    statements: [
      ...writesOf(send, pushed),
      ...forgetFailures(owner, settled),
      ...noteFailures(owner, pushed.refused, walk.isLast),
      advanceSync(sync, {
        done: pushed.synced.length,
        skipped: pushed.skipped,
        merged: pushed.merged.length,
        taken: pushed.takes.length,
        ends: next === null && waiting === 0,
      }),
    ],
    emit: pushed.synced.map((one) => ContactSynced.from(one)),
    output: { next, waiting },
  };
}

/** All statements for the results of a push. */
export function writesOf({ tenantId, sendId }: SendKey, pushed: Pushed) {
  const settled = [...pushed.links, ...pushed.merged, ...pushed.cut].map(({ contactId }) => contactId);
  return [
    ...endSend({ tenantId, sendId }, settled),
    ...closeLinks(tenantId, "none", pushed.anew),
    ...writeLinks(tenantId, pushed.links),
    ...takeOver(tenantId, pushed.takes),
    ...closeLinks(tenantId, "merged", pushed.merged),
    ...closeLinks(tenantId, "cut", pushed.cut),
    ...noteRefusals(
      tenantId,
      pushed.refused.map((one) => ({ contactId: one.contactId, ...asError(one) })),
    ),
  ];
}

/** Throws an error if another command uses the same sync name, because both commands would add to the same counts. */
async function assertOurs({ env, envelope, instanceId, syncId }: SyncCall): Promise<void> {
  const sync = await findSync(env.DB, envelope.tenant_id, syncId);
  if (sync && sync.instanceId !== instanceId)
    throw notRetryable(`The sync “${syncId}” belongs to another command: give each sync a new name.`);
}

function byId(one: Candidate, other: Candidate): number {
  return one.contact.contact_id < other.contact.contact_id ? -1 : 1;
}
