import { removeContacts } from "../contacts/contact.ts";
import { markForgotten, pseudonymOf } from "../contacts/forgotten.ts";
import { Traces } from "../contacts/traces.ts";
import { emptyLinks, removeLinks } from "../crm/links.ts";
import { busyWith, inTurn, refuseIfPushed } from "../crm/sends.ts";
import {
  type Accepted,
  audit,
  type Catalog,
  type Commit,
  digest,
  enqueue,
  instanceId,
  MillraceError,
  notRetryable,
  now,
  query,
  type Requester,
  sql,
} from "../engine/index.ts";
import { ContactForget } from "../messages/crm.ts";
import { type Known, whoIs } from "./person.ts";
import { BEGINNING, type Counts, isOver, type Progress, search } from "./sweep.ts";

/** The command that forgets a person. */
export interface ForgetCall {
  env: Env;
  tenantId: string;
  instanceId: string;
  /** The pseudonym of the contact that was named. */
  person: string;
}

interface Row {
  contact_id: string;
  person: string | null;
  progress: string | null;
  asked_by: string;
  reason: string;
}

/** Whom to forget, and why. */
export interface Wish {
  contactId: string;
  /** Names the occasion; the same one is the same command. */
  request: string;
  reason: string;
}

/** How long one step searches, and one dry run. */
const SEARCH_MS = 15_000;

/**
 * Accepts the commands that forget people. Who is meant is written in one place, which goes with the last of what is found; the commands say pseudonyms.
 * Asked again, a wish is known. Errors, by place: as `enqueue`.
 */
export function askToForget(
  env: Env,
  catalog: Catalog,
  by: Requester & { actor: string },
  wishes: readonly Wish[],
): Promise<(Accepted | MillraceError)[]> {
  const { tenantId, actor } = by;
  const workflow = catalog.performer(ContactForget.type).name;
  const asked = wishes.map(({ contactId, request, reason }) => {
    const payload = { person: pseudonymOf(env, tenantId, contactId), request };
    const id = instanceId(tenantId, workflow, ContactForget.key(payload));
    // One that has been done is not begun again: its row would stay for ever.
    const row = sql`
      INSERT INTO forgettings (tenant_id, pseudonym, contact_id, asked_by, reason, asked_at)
      SELECT ${tenantId}, ${payload.person}, ${contactId}, ${actor}, ${reason}, ${now}
      WHERE NOT EXISTS (SELECT 1 FROM instances WHERE id = ${id}) AND NOT EXISTS (SELECT 1 FROM tombstones WHERE id = unhex(${id}))
      ON CONFLICT DO NOTHING`;
    return { request: { type: ContactForget.type, payload }, row };
  });
  return enqueue(
    env,
    catalog,
    by,
    asked.map(({ request }) => request),
    asked.map(({ row }) => row),
  );
}

/** What would go if a person were forgotten now, by place. */
export async function previewOf(
  env: Env,
  tenantId: string,
  contactId: string,
): Promise<{ contacts: string[]; found: Counts; waiting: number; complete: boolean }> {
  const { known, candidates } = await whoIs(env, tenantId, contactId);
  const rows = await rowsOf(env, tenantId, known, candidates.length);
  const progress = await search(env, tenantId, known, { progress: { ...BEGINNING, removed: rows }, apply: false, forMs: SEARCH_MS });
  return { contacts: known.ids.map(({ id }) => id), found: progress.removed, waiting: progress.waiting, complete: isOver(progress) };
}

/**
 * Takes a person out of everything that works with contacts, in one write: from then on nothing brings them back. Waits until no push has one of
 * their contacts; what was read before this write and is written after it is refused.
 */
export function takeOff(call: ForgetCall): Promise<Commit<{ contacts: number }>> {
  const { env, tenantId, person: pseudonym } = call;
  return inTurn(async () => {
    const row = await rowOf(call);
    const { known, candidates } = await whoIs(env, tenantId, row.contact_id);
    const ids = known.ids.map(({ id }) => id);
    const busy = await busyWith(env.DB, tenantId, ids);
    if (busy) return busy;
    const versions = candidates.map(({ contact, link }) => ({ id: contact.contact_id, version: link?.version ?? 0 }));
    const removed = await rowsOf(env, tenantId, known, candidates.length);
    return {
      statements: [
        refuseIfPushed(tenantId, versions),
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

/** The next stretch of a search. Answers where it stands: `over` when it has looked everywhere. */
export async function searchOn(call: ForgetCall): Promise<Commit<{ over: boolean; found: number; waiting: number }>> {
  const { env, tenantId, person: pseudonym } = call;
  const { known, progress } = await begun(call);
  const before = isOver(progress) ? { ...BEGINNING, removed: progress.removed } : progress;
  const reached = await search(env, tenantId, known, { progress: before, apply: true, forMs: SEARCH_MS });
  return {
    statements: [
      sql`
        UPDATE forgettings SET progress = ${JSON.stringify(reached)}
        WHERE tenant_id = ${tenantId} AND pseudonym = ${pseudonym}`,
    ],
    output: { over: isOver(reached), found: reached.found, waiting: reached.waiting },
  };
}

/** Removes the last that said who it was, and audits what went. Answers that too: counts by place, and nobody's name. */
export async function finish(call: ForgetCall): Promise<Commit<{ removed: Counts }>> {
  const { tenantId, person: pseudonym } = call;
  const { row, known, progress } = await begun(call);
  const { removed } = progress;
  const action = {
    id: digest("forget", call.instanceId),
    verb: "forget",
    target: pseudonym,
    instanceId: call.instanceId,
    reason: new Traces(known).rewrite("reason", row.reason),
    detail: { removed },
  } as const;
  const ids = known.ids.map(({ id }) => id);
  return {
    statements: [
      ...removeLinks(tenantId, ids),
      sql`DELETE FROM forgettings WHERE tenant_id = ${tenantId} AND pseudonym = ${pseudonym}`,
      audit({ tenantId, actor: row.asked_by }, action, false),
    ],
    output: { removed },
  };
}

/** The person as they were when they were taken off. */
export async function begun(call: Omit<ForgetCall, "instanceId">): Promise<{ row: Row; known: Known; progress: Progress }> {
  const row = await rowOf(call);
  if (row.person === null || row.progress === null)
    throw new MillraceError("invariant", "A search was begun before its person was taken off.");
  return { row, known: JSON.parse(row.person) as Known, progress: JSON.parse(row.progress) as Progress };
}

async function rowOf({ env, tenantId, person }: Omit<ForgetCall, "instanceId">): Promise<Row> {
  const [row] = await query<Row & Record<string, unknown>>(
    env.DB,
    sql`
      SELECT contact_id, person, progress, asked_by, reason FROM forgettings
      WHERE tenant_id = ${tenantId} AND pseudonym = ${person}`,
  );
  if (row) return row;
  throw notRetryable("Nobody has said whom to forget: ask for it with POST /v1/contacts/forget, which sends its command itself.");
}

/** How many rows of a person's own there are. */
async function rowsOf({ DB }: Env, tenantId: string, { ids }: Known, contacts: number): Promise<Counts> {
  const among = sql`tenant_id = ${tenantId} AND contact_id IN (SELECT value FROM json_each(${JSON.stringify(ids.map(({ id }) => id))}))`;
  const [counted] = await query<{ crm_links: number; crm_failures: number }>(
    DB,
    sql`
      SELECT (SELECT count(*) FROM crm_links WHERE ${among}) AS crm_links, (SELECT count(*) FROM crm_failures WHERE ${among}) AS crm_failures`,
  );
  return Object.fromEntries(Object.entries({ contacts, ...counted }).filter(([, count]) => count > 0));
}
