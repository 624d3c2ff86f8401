import { atomically, type Commit, ids, MillraceError, notRetryable, query, type Statement, sql, type TraceContext } from "millrace";
import { audit } from "millrace/operate";
import { removeContacts } from "../contacts/contact.ts";
import { isForgotten, markForgotten } from "../contacts/forgotten.ts";
import { Traces } from "../contacts/traces.ts";
import { emptyLinks, removeLinks } from "../crm/links.ts";
import { busyWith, inTurn, refuseIfPushed, refuseIfWritten } from "../crm/sends.ts";
import { idsOf, type Known, together, whoIs } from "./person.ts";
import { type Ended, endPutOff } from "./put-off.ts";
import { BEGINNING, type Counts, isBeginning, isOver, type Progress, search } from "./sweep.ts";

/** A running command that forgets a person. */
export interface ForgetCall {
  env: Env;
  tenantId: string;
  instanceId: string;
  /** The pseudonym of the requested contact. */
  person: string;
  trace: TraceContext;
}

interface Row extends Record<string, unknown> {
  contact_id: string;
  person: string | null;
  progress: string | null;
  asked_by: string;
  reason: string;
  asked_at: number;
  instance_id: string | null;
}

type Whom = Pick<ForgetCall, "env" | "tenantId" | "person">;

/** `others` is true if another command has forgotten the same person, or continues this work. In this case the present command ends. */
interface Whose {
  others?: true;
}

const OTHERS = { others: true } as const;

/** Time limit of a search in one step, and in one dry run. */
const SEARCH_MS = 15_000;

/** Counts the rows that a command would remove or rewrite now, by place. */
export async function previewOf(
  env: Env,
  tenantId: string,
  contactId: string,
): Promise<{ contacts: string[]; found: Counts; waiting: number; complete: boolean }> {
  const { known, candidates } = await allKnownOf(env, tenantId, contactId);
  const rows = await rowsOf(env, tenantId, known, candidates.length);
  const beginning = counting({ ...BEGINNING, removed: rows }, await endPutOff(env, tenantId, new Traces(known)));
  const progress = await search(env, tenantId, known, { progress: beginning, apply: false, forMs: SEARCH_MS, asker: { key: "" } });
  return { contacts: known.ids.map(({ id }) => id), found: progress.removed, waiting: progress.waiting, complete: isOver(progress) };
}

/**
 * Removes a person from all tables that work with contacts, in one write. After this write the person cannot be restored. The function
 * waits until no push has reserved one of the person's contacts. If a contact was written after the read, this write is refused and the
 * step reads again. Later writes of other steps that are based on an earlier read are refused. Ids that an earlier, unfinished command has
 * found are included.
 */
export function takeOff(call: ForgetCall): Promise<Commit<{ contacts: number } & Whose>> {
  const { env, tenantId, person: pseudonym } = call;
  return inTurn(async () => {
    const row = await ownRow(call);
    if (!row) return { output: { contacts: 0, ...OTHERS } };
    const { known, candidates } = await allKnownOf(env, tenantId, row.contact_id);
    const ids = known.ids.map(({ id }) => id);
    const busy = await busyWith(env.DB, tenantId, ids);
    if (busy) return busy;
    const versions = candidates.map(({ contact, link }) => ({ id: contact.contact_id, version: link?.version ?? 0 }));
    const revisions = new Map(candidates.map(({ contact }) => [contact.contact_id, contact.revision]));
    const asRead = ids.map((id) => ({ id, revision: revisions.get(id) ?? 0 }));
    const before = row.progress === null ? {} : (JSON.parse(row.progress) as Progress).removed;
    const removed = sumOf(before, await rowsOf(env, tenantId, known, candidates.length));
    // If the contact was merged with another contact since the ids were read, the step starts again, because both contacts are the same
    // person.
    if ((await idsOf(env, tenantId, row.contact_id)).some((id) => !ids.includes(id))) return { busyUntil: 0 };
    return {
      statements: [
        refuseIfPushed(tenantId, versions),
        refuseIfWritten(tenantId, asRead),
        markForgotten(
          tenantId,
          known.ids.map(({ as }) => as),
        ),
        sql`
          UPDATE forgettings SET person = ${JSON.stringify(known)}, progress = ${JSON.stringify({ ...BEGINNING, removed })}
          WHERE tenant_id = ${tenantId} AND pseudonym = ${pseudonym}`,
        removeContacts(tenantId, ids),
        emptyLinks(tenantId, ids),
      ],
      output: { contacts: ids.length },
    };
  });
}

/**
 * Runs the next part of a person's search. Returns the search's progress, with `over` if the search is complete. Throws `not_retryable` if
 * a pass ended with rows that must wait, unless `mayWait` is true. A retry starts the pass again.
 */
export async function searchOn(
  call: ForgetCall,
  { mayWait }: { mayWait: boolean },
): Promise<Commit<{ over: boolean; found: number; waiting: number; waits_for?: string[] } & Whose>> {
  const { env, tenantId, instanceId: key, trace } = call;
  const row = await ownRow(call);
  if (!row) return { output: { over: true, found: 0, waiting: 0, ...OTHERS } };
  const { known, progress } = begun(row);
  const before = isOver(progress) ? { ...BEGINNING, removed: progress.removed } : progress;
  const ended = isBeginning(before) ? await endPutOff(env, tenantId, new Traces(known)) : undefined;
  const reached = await search(env, tenantId, known, {
    progress: ended ? counting(before, ended) : before,
    apply: true,
    forMs: SEARCH_MS,
    asker: { key, trace },
  });
  const { found, waiting, waitsFor = [], removed } = reached;
  if (isOver(reached) && waiting > 0 && !mayWait) {
    await atomically(env.DB, [noteProgress(call, { ...BEGINNING, removed }), ...(ended?.statements ?? [])]);
    throw underWay(waiting, waitsFor);
  }
  return {
    statements: [noteProgress(call, reached), ...(ended?.statements ?? [])],
    emit: ended?.emit ?? [],
    output: { over: isOver(reached), found, waiting, waits_for: waitsFor },
  };
}

/** Adds ended deliveries to the progress. These deliveries count as found rows, so that another pass follows. */
function counting(progress: Progress, { count }: Ended): Progress {
  if (count === 0) return progress;
  return { ...progress, found: progress.found + count, removed: sumOf(progress.removed, { "deliveries put off": count }) };
}

function noteProgress({ tenantId, person, instanceId }: ForgetCall, progress: Progress): Statement {
  return sql`
    UPDATE forgettings SET progress = ${JSON.stringify(progress)}
    WHERE tenant_id = ${tenantId} AND pseudonym = ${person} AND coalesce(instance_id, ${instanceId}) = ${instanceId}`;
}

function underWay(waiting: number, instances: readonly string[]): Error {
  const named = instances.length > 0 ? ` (instances ${instances.join(", ")})` : "";
  return notRetryable(
    `${waiting} rows of running instances, or messages that no queue accepts, mention the person${named}. Resolve the instances that GET /v1/instances lists as waiting or in_doubt, and errored batches. Then retry this, or send another request: both continue with all known ids of the person.`,
  );
}

/**
 * Deletes the last row with the person's ids, and audits the counts by place, without names. Earlier failed requests under other ids of the
 * same person are finished too.
 */
export async function finish(call: ForgetCall): Promise<Commit<{ removed: Counts }>> {
  const { tenantId, person: pseudonym, instanceId } = call;
  const row = await ownRow(call);
  if (!row) return { output: { removed: {} } };
  const { known, progress } = begun(row);
  const { removed } = progress;
  const action = {
    id: ids.digest("forget", call.instanceId),
    verb: "forget",
    target: pseudonym,
    instanceId: call.instanceId,
    reason: new Traces(known).rewrite("reason", row.reason),
    detail: { removed },
  } as const;
  const contactIds = known.ids.map(({ id }) => id);
  return {
    statements: [
      ...removeLinks(tenantId, contactIds),
      sql`
        DELETE FROM forgettings WHERE tenant_id = ${tenantId}
          AND iif(pseudonym = ${pseudonym}, coalesce(instance_id, ${instanceId}) = ${instanceId},
          asked_at <= ${row.asked_at} AND pseudonym IN ${sql.among(known.ids.map(({ as }) => as))})`,
      audit({ tenantId, actor: row.asked_by }, action, false),
    ],
    output: { removed },
  };
}

/** Returns the person's records in the CRM. The lists are empty if another command has finished the request. */
export async function recordsOf(whom: Whom): Promise<Pick<Known, "records" | "unsure">> {
  const row = await findRow(whom);
  return row ? begun(row).known : { records: [], unsure: [] };
}

/** Returns the person's data at the time of the removal, and the search's progress. */
function begun({ person, progress }: Row): { known: Known; progress: Progress } {
  if (person === null || progress === null) throw new MillraceError("invariant", "A search was begun before its person was taken off.");
  return { known: JSON.parse(person) as Known, progress: JSON.parse(progress) as Progress };
}

/**
 * Returns the row of the request on which this command works. The result is undefined if another command has taken over or finished the
 * request. Throws `not_retryable` if there was no request.
 */
async function ownRow(call: ForgetCall): Promise<Row | undefined> {
  const { env, tenantId, person, instanceId } = call;
  const row = await findRow(call);
  if (row) return (row.instance_id ?? instanceId) === instanceId ? row : undefined;
  if (await isForgotten(env.DB, tenantId, person)) return undefined;
  throw notRetryable("There is no request to erase this person: use POST /v1/contacts/forget, which sends its command.");
}

async function findRow({ env, tenantId, person }: Whom): Promise<Row | undefined> {
  const [row] = await query<Row>(
    env.DB,
    sql`
      SELECT contact_id, person, progress, asked_by, reason, asked_at, instance_id FROM forgettings
      WHERE tenant_id = ${tenantId} AND pseudonym = ${person}`,
  );
  return row;
}

/** Returns all known data of a person: the current data, and the data of earlier unfinished commands under any of the person's ids. */
async function allKnownOf(env: Env, tenantId: string, contactId: string): Promise<Awaited<ReturnType<typeof whoIs>>> {
  const { known, candidates } = await whoIs(env, tenantId, contactId);
  const before = await query<{ person: string }>(
    env.DB,
    sql`
      SELECT person FROM forgettings WHERE tenant_id = ${tenantId} AND person IS NOT NULL
        AND EXISTS (SELECT 1 FROM json_each(person, '$.ids') i WHERE i.value->>'id' = ${contactId})`,
  );
  return { known: before.map(({ person }) => JSON.parse(person) as Known).reduce(together, known), candidates };
}

function sumOf(one: Counts, other: Counts): Counts {
  return Object.fromEntries(
    [...new Set([...Object.keys(one), ...Object.keys(other)])].map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)]),
  );
}

/** Counts the rows that belong only to the person. */
async function rowsOf({ DB }: Env, tenantId: string, { ids }: Known, contacts: number): Promise<Counts> {
  const theirs = sql`tenant_id = ${tenantId} AND contact_id IN ${sql.among(ids.map(({ id }) => id))}`;
  const [counted] = await query<{ crm_links: number; crm_failures: number }>(
    DB,
    sql`
      SELECT (SELECT count(*) FROM crm_links WHERE ${theirs}) AS crm_links,
        (SELECT count(*) FROM crm_failures WHERE ${theirs}) AS crm_failures`,
  );
  return Object.fromEntries(Object.entries({ contacts, ...counted }).filter(([, count]) => count > 0));
}
