import { atomically, codeOf, MillraceError, messageOf, now, query, type Statement, sql } from "millrace";
import { type Account, type AccountEnv, isOtherAccount, noteAccount, readOf } from "./account.ts";
import type { Prepared } from "./prepared.ts";
import type { Properties } from "./properties.ts";

/** A contact that is about to be sent. */
export interface SentContact {
  id: string;
  /** The version in which its link was read; 0 for none. Default: whatever it says is right. */
  version?: number;
  /** What attempts send of it; the newest last. Empty for one that is only looked at, or merged. */
  sent: readonly Properties[];
  /** What is to be done, by a push that does it in steps of their own: with the first of its contacts. */
  plan?: Prepared;
}

/** A push: whose, and which step's. */
export interface SendKey {
  tenantId: string;
  sendId: string;
}

/** Some contacts are being pushed by somebody else, until this time at the latest; or were written since they were read: `until` is 0. */
export interface Busy {
  busyUntil: number;
}

/** A push holds its contacts for so long: longer than its step may take. */
const HOLD_MS = 6 * 60_000;

/** Looks again after so long while another push has the contacts, doubled up to the most; and within one attempt for so long altogether. */
const LOOK_AGAIN_MS = { least: 20, most: 1000 };
const PATIENCE_MS = 20_000;

/** What this push has sent in attempts before, by contact, which may have arrived; and to which account it may go. Errors: as `readOf`. */
export async function sentBefore(
  env: AccountEnv,
  { tenantId, sendId }: SendKey,
): Promise<{ before: ReadonlyMap<string, readonly Properties[]>; account: Account }> {
  const mine = sql`SELECT contacts FROM crm_sends WHERE tenant_id = ${tenantId} AND send_id = ${sendId}`;
  const { rows, account } = await readOf<{ contacts: string }>(env, tenantId, mine);
  const contacts = rows.flatMap((row) => JSON.parse(row.contacts) as SentContact[]);
  return { before: new Map(contacts.map(({ id, sent }) => [id, sent])), account };
}

/**
 * Puts on record what is about to be sent, before any of it is: from then on nobody else pushes these contacts. Answers when to try again
 * where somebody does, or where a link was written since it was read: then nothing is to be sent. What a push left that died is known to
 * its contacts' links afterwards.
 */
export async function beginSend(
  db: D1Database,
  key: SendKey,
  account: Account,
  contacts: readonly SentContact[],
): Promise<Busy | undefined> {
  const { tenantId, sendId } = key;
  const rows = JSON.stringify(contacts);
  const answers = await atomically(db, [
    ...noteAccount(tenantId, account),
    sql`
      INSERT INTO crm_sends (tenant_id, send_id, until, contacts) SELECT ${tenantId}, ${sendId}, ${now} + ${HOLD_MS}, ${rows}
      WHERE NOT EXISTS (${othersOf(key, rows)}) AND NOT ${isOtherAccount(tenantId, account)}
        AND NOT ${isLinkWritten(tenantId, rows)}
      ON CONFLICT (tenant_id, send_id) DO UPDATE SET until = excluded.until, contacts = (
        SELECT json_group_array(json(value)) FROM (SELECT value FROM json_each(excluded.contacts) UNION ALL ${droppedFrom(rows)}))
      RETURNING 1`,
  ]);
  if (answers.at(-1)?.length) return undefined;
  await clearWay(db, key, rows);
  const [living] = await query<{ until: number }>(db, sql`SELECT coalesce(max(until), 0) AS until FROM (${othersOf(key, rows)})`);
  return { busyUntil: living?.until ?? 0 };
}

/**
 * What a push in steps is to do, as long as its contacts are its own, and for as long again from now on; nothing where somebody has taken
 * them over.
 */
export async function heldPlan(db: D1Database, { tenantId, sendId }: SendKey): Promise<Prepared | undefined> {
  const [row] = await query<{ contacts: string }>(
    db,
    sql`
      UPDATE crm_sends SET until = ${now} + ${HOLD_MS} WHERE tenant_id = ${tenantId} AND send_id = ${sendId} RETURNING contacts`,
  );
  return row && (JSON.parse(row.contacts) as SentContact[])[0]?.plan;
}

/**
 * Contacts that attempts before sent, and this one does not bring: what may have arrived of them is known to their links when the push
 * ends.
 */
function droppedFrom(rows: string): Statement {
  return sql`
    SELECT json_remove(o.value, '$.plan') AS value FROM json_each(crm_sends.contacts) o
    WHERE json_array_length(o.value->'sent') > 0 AND o.value->>'id' NOT IN (SELECT value->>'id' FROM json_each(${rows}))`;
}

/** The sends of others that name one of these contacts. */
function othersOf({ tenantId, sendId }: SendKey, rows: string): Statement {
  return sql`
    SELECT s.until FROM crm_sends s WHERE s.tenant_id = ${tenantId} AND s.send_id <> ${sendId}
      AND EXISTS (SELECT 1 FROM json_each(s.contacts) o WHERE o.value->>'id' IN (SELECT value->>'id' FROM json_each(${rows})))`;
}

/**
 * Until when somebody but `mine` pushes one of these contacts; nothing where nobody does. What a push left that died is known to the links
 * then.
 */
export async function busyWith(db: D1Database, tenantId: string, ids: readonly string[], mine = ""): Promise<Busy | undefined> {
  const key = { tenantId, sendId: mine };
  const rows = JSON.stringify(ids.map((id) => ({ id })));
  const look = () =>
    query<{ until: number; expired: number }>(db, sql`SELECT until, until <= ${now} AS expired FROM (${othersOf(key, rows)})`);
  let found = await look();
  if (found.length > 0) await clearWay(db, key, rows);
  if (found.some(({ expired }) => expired)) found = await look();
  return found.length > 0 ? { busyUntil: Math.max(...found.map(({ until }) => until)) } : undefined;
}

/** Whether somebody has put a contact on record to push it. */
export async function isOnItsWay(db: D1Database, tenantId: string, id: string): Promise<boolean> {
  const rows = JSON.stringify([{ id }]);
  return (await query(db, othersOf({ tenantId, sendId: "" }, rows))).length > 0;
}

/** Pushes whose holder died: their contacts' links know from now on what may be there of them, and are to be synced. */
export async function adoptExpired(db: D1Database, tenantId: string): Promise<void> {
  await atomically(db, release(tenantId, sql`s.until <= ${now}`));
}

/**
 * Makes way before these contacts are waited for. Of two pushes that each keep one which the other needs, the one with the greater id gives
 * its own up: in any circle there is one that waits for a smaller.
 */
async function clearWay(db: D1Database, { tenantId, sendId }: SendKey, rows: string): Promise<void> {
  const isBehind = sql`EXISTS (${othersOf({ tenantId, sendId }, rows)} AND s.send_id < ${sendId})`;
  await atomically(db, [...release(tenantId, sql`s.until <= ${now}`), ...release(tenantId, sql`s.send_id = ${sendId} AND ${isBehind}`)]);
}

/**
 * Ends a push, in the write that says what became of its contacts, of which `settled` are those whose links are written with it: of every
 * other one that was sent it is unknown what is there. Refuses that whole write where somebody has taken the push over.
 */
export function endSend({ tenantId, sendId }: SendKey, settled: readonly string[]): Statement[] {
  const mine = sql`s.tenant_id = ${tenantId} AND s.send_id = ${sendId}`;
  return [
    refuseIf(tenantId, sql`NOT EXISTS (SELECT 1 FROM crm_sends s WHERE ${mine})`),
    adopt(tenantId, sql`${mine} AND c.value->>'id' NOT IN (SELECT value FROM json_each(${JSON.stringify(settled)}))`),
    sql`DELETE FROM crm_sends AS s WHERE ${mine}`,
  ];
}

/**
 * Lets go of what somebody has on record, where that is anything: of all that it sent it is unknown what is there. Before their links are
 * written.
 */
export function letGo({ tenantId, sendId }: SendKey): Statement[] {
  return release(tenantId, sql`s.send_id = ${sendId}`);
}

/** The same of all that a tenant's pushes have on record. */
export function letGoOfAll(tenantId: string): Statement[] {
  return release(tenantId, sql`true`);
}

/** What another attempt cannot cure: the CRM refuses our token, or its account is another. */
const FINAL: ReadonlySet<string | undefined> = new Set(["not_retryable", "config_invalid"]);

/** Does a push's work. Where it fails for good, nobody waits for its contacts any more. */
export async function orLetGo<Done>(db: D1Database, key: SendKey, work: () => Promise<Done>): Promise<Done> {
  try {
    return await work();
  } catch (error) {
    if (FINAL.has(codeOf(error))) await atomically(db, letGo(key));
    throw error;
  }
}

function release(tenantId: string, which: Statement): Statement[] {
  const those = sql`s.tenant_id = ${tenantId} AND ${which}`;
  return [adopt(tenantId, those), sql`DELETE FROM crm_sends AS s WHERE ${those}`];
}

/**
 * Refuses a write of contacts whose links were written since these versions of them were read, that somebody else pushes, or that are of
 * another account.
 */
export function refuseIfChanged(key: SendKey, account: Account, contacts: readonly Pick<SentContact, "id" | "version">[]): Statement {
  return refuseIf(key.tenantId, sql`${isOtherAccount(key.tenantId, account)} OR ${isPushedOrChanged(key, contacts)}`);
}

function isPushedOrChanged(key: SendKey, contacts: readonly Pick<SentContact, "id" | "version">[]): Statement {
  const rows = JSON.stringify(contacts);
  return sql`EXISTS (${othersOf(key, rows)}) OR ${isLinkWritten(key.tenantId, rows)}`;
}

/** The link of one of these contacts was written since this version of it was read. */
function isLinkWritten(tenantId: string, rows: string): Statement {
  return sql`
    EXISTS (SELECT 1 FROM json_each(${rows}) c
      LEFT JOIN crm_links l ON l.tenant_id = ${tenantId} AND l.contact_id = c.value->>'id'
      WHERE coalesce(l.version, 0) <> c.value->>'version')`;
}

/** The same of whatever account they are: for contacts that are being forgotten. */
export function refuseIfPushed(tenantId: string, contacts: readonly Pick<SentContact, "id" | "version">[]): Statement {
  return refuseIf(tenantId, isPushedOrChanged({ tenantId, sendId: "" }, contacts));
}

/** Refuses a write where one of these contacts was written since it was read in this revision; 0 where there was none. */
export function refuseIfWritten(tenantId: string, contacts: readonly { id: string; revision: number }[]): Statement {
  return refuseIf(
    tenantId,
    sql`
      EXISTS (SELECT 1 FROM json_each(${JSON.stringify(contacts)}) r
        LEFT JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = r.value->>'id'
        WHERE coalesce(c.revision, 0) <> r.value->>'revision')`,
  );
}

/** Whether a write was refused by `refuseIfPushed` or its like: who made it looks again. */
export function wasRefused(error: unknown): boolean {
  return messageOf(error).includes("contact_changed_meanwhile");
}

/** How many pushes have texts on their way that say something. */
export async function sendsSaying(db: D1Database, tenantId: string, mentions: readonly string[]): Promise<number> {
  const [found] = await query<{ count: number }>(
    db,
    sql`
      SELECT count(*) AS count FROM crm_sends WHERE tenant_id = ${tenantId}
        AND EXISTS (SELECT 1 FROM json_each(${JSON.stringify(mentions)}) m WHERE instr(lower(contacts), m.value) > 0)`,
  );
  return found?.count ?? 0;
}

function refuseIf(tenantId: string, condition: Statement): Statement {
  return sql`INSERT INTO crm_sends (tenant_id, send_id, until, contacts) SELECT ${tenantId}, '', 0, '[]' WHERE ${condition}`;
}

function adopt(tenantId: string, which: Statement): Statement {
  return sql`
    INSERT INTO crm_links (tenant_id, contact_id, crm_id, state, revision, known, maybe, updated_at)
    SELECT ${tenantId}, c.value->>'id', NULL, 'none', 0, '{}', c.value->'sent', ${now} FROM crm_sends s, json_each(s.contacts) c
    WHERE ${which} AND json_array_length(c.value->'sent') > 0
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      maybe = (SELECT json_group_array(json(value))
        FROM (SELECT value FROM json_each(crm_links.maybe) UNION SELECT value FROM json_each(excluded.maybe))),
      revision = 0, version = crm_links.version + 1, updated_at = excluded.updated_at`;
}

/**
 * Does what is not to be done while somebody pushes one of its contacts: again and again, for a while. Errors: `retry_after`, without a
 * time: a hold mostly ends long before it would expire, so the step comes back by its own pauses, which grow with what it has waited.
 */
export async function inTurn<Done extends object>(work: () => Promise<Done | Busy>): Promise<Done> {
  const endsAt = Date.now() + PATIENCE_MS;
  for (let pauseMs = LOOK_AGAIN_MS.least; ; pauseMs = Math.min(pauseMs * 2, LOOK_AGAIN_MS.most)) {
    const done = await work();
    if (!("busyUntil" in done)) return done;
    if (Date.now() > endsAt) throw new MillraceError("retry_after", "Another sync has one of these contacts: this one comes after it.");
    await scheduler.wait(done.busyUntil > 0 ? pauseMs : 1);
  }
}
