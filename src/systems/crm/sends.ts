import { atomically, errors, MillraceError, query, type Statement, sql } from "millrace";
import { type Account, type AccountEnv, isOtherAccount, noteAccount, readOf } from "./account.ts";
import type { Prepared } from "./prepared.ts";
import type { Properties } from "./properties.ts";

/** A contact that is about to be sent. */
export interface SentContact {
  id: string;
  /** The version of the contact's link at the time of the read; 0 if the contact had no link. By default any version is accepted. */
  version?: number;
  /** The values that each attempt sends, newest last. Empty for a contact that is only read or merged. */
  sent: readonly Properties[];
  /** The planned CRM calls of a push in several steps, stored with the push's first contact. */
  plan?: Prepared;
}

/** Identifies a push by its tenant and step. */
export interface SendKey {
  tenantId: string;
  sendId: string;
}

/**
 * States that another push has reserved some of the contacts, at most until this time. The time is 0 if a link was written after the link's
 * contact was read.
 */
export interface Busy {
  busyUntil: number;
}

/** How long a push reserves its contacts. This time is longer than the maximum duration of a push's step. */
const HOLD_MS = 6 * 60_000;

/**
 * First and longest poll interval while another push has reserved the contacts. The interval is doubled after each poll. `PATIENCE_MS` is
 * the longest total wait of an attempt.
 */
const LOOK_AGAIN_MS = { least: 20, most: 1000 };
const PATIENCE_MS = 20_000;

/**
 * Reads the values that earlier attempts of this push sent, by contact, and the tenant's CRM account. The CRM may have these values. Throws
 * the errors of `readOf`.
 */
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
 * Stores the values to send before the first call, and reserves the contacts for this push. The function returns `Busy` if another push has
 * reserved a contact, or a contact's link was written after the contact was read. The values of interrupted pushes are copied to the links
 * of the pushes' contacts.
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
      INSERT INTO crm_sends (tenant_id, send_id, until, contacts) SELECT ${tenantId}, ${sendId}, ${sql.now} + ${HOLD_MS}, ${rows}
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
 * Returns the planned calls while the push's contacts are reserved, and extends the reservation; undefined if another push has taken over
 * the contacts.
 */
export async function heldPlan(db: D1Database, { tenantId, sendId }: SendKey): Promise<Prepared | undefined> {
  const [row] = await query<{ contacts: string }>(
    db,
    sql`
      UPDATE crm_sends SET until = ${sql.now} + ${HOLD_MS} WHERE tenant_id = ${tenantId} AND send_id = ${sendId} RETURNING contacts`,
  );
  return row && (JSON.parse(row.contacts) as SentContact[])[0]?.plan;
}

/**
 * Selects contacts that earlier attempts sent and this attempt does not send. When the push ends, these contacts' links record the values
 * that the CRM may have.
 */
function droppedFrom(rows: string): Statement {
  return sql`
    SELECT json_remove(o.value, '$.plan') AS value FROM json_each(crm_sends.contacts) o
    WHERE json_array_length(o.value->'sent') > 0 AND o.value->>'id' NOT IN (SELECT value->>'id' FROM json_each(${rows}))`;
}

/** Selects the other pushes that have reserved one of these contacts. */
function othersOf({ tenantId, sendId }: SendKey, rows: string): Statement {
  return sql`
    SELECT s.until FROM crm_sends s WHERE s.tenant_id = ${tenantId} AND s.send_id <> ${sendId}
      AND EXISTS (SELECT 1 FROM json_each(s.contacts) o WHERE o.value->>'id' IN (SELECT value->>'id' FROM json_each(${rows})))`;
}

/**
 * The time until which a push other than `mine` has reserved one of these contacts; undefined if none has. Values of interrupted pushes
 * are copied to the contacts' links.
 */
export async function busyWith(db: D1Database, tenantId: string, ids: readonly string[], mine = ""): Promise<Busy | undefined> {
  const key = { tenantId, sendId: mine };
  const rows = JSON.stringify(ids.map((id) => ({ id })));
  const look = () =>
    query<{ until: number; expired: number }>(db, sql`SELECT until, until <= ${sql.now} AS expired FROM (${othersOf(key, rows)})`);
  let found = await look();
  if (found.length > 0) await clearWay(db, key, rows);
  if (found.some(({ expired }) => expired)) found = await look();
  return found.length > 0 ? { busyUntil: Math.max(...found.map(({ until }) => until)) } : undefined;
}

/** True if a push has reserved the contact. */
export async function isOnItsWay(db: D1Database, tenantId: string, id: string): Promise<boolean> {
  const rows = JSON.stringify([{ id }]);
  return (await query(db, othersOf({ tenantId, sendId: "" }, rows))).length > 0;
}

/**
 * Ends interrupted pushes. The links of the pushes' contacts record the values that the CRM may have, and the contacts must be synced
 * again.
 */
export async function adoptExpired(db: D1Database, tenantId: string): Promise<void> {
  await atomically(db, release(tenantId, sql`s.until <= ${sql.now}`));
}

/**
 * Prevents a deadlock between pushes that wait for each other's contacts. A push that waits for a push with a smaller id releases its own
 * contacts. Every cycle of waiting pushes contains such a push.
 */
async function clearWay(db: D1Database, { tenantId, sendId }: SendKey, rows: string): Promise<void> {
  const isBehind = sql`EXISTS (${othersOf({ tenantId, sendId }, rows)} AND s.send_id < ${sendId})`;
  await atomically(db, [
    ...release(tenantId, sql`s.until <= ${sql.now}`),
    ...release(tenantId, sql`s.send_id = ${sendId} AND ${isBehind}`),
  ]);
}

/**
 * Ends a push, in the write that also contains the push's results. `settled` contains the contacts whose links are in that write. For all
 * other contacts it is unknown which values the CRM has. Fails the whole write if another push has taken over the contacts.
 */
export function endSend({ tenantId, sendId }: SendKey, settled: readonly string[]): Statement[] {
  const mine = sql`s.tenant_id = ${tenantId} AND s.send_id = ${sendId}`;
  return [
    refuseIf(tenantId, sql`NOT EXISTS (SELECT 1 FROM crm_sends s WHERE ${mine})`),
    adopt(tenantId, sql`${mine} AND c.value->>'id' NOT IN (SELECT value FROM json_each(${JSON.stringify(settled)}))`),
    sql`DELETE FROM crm_sends AS s WHERE ${mine}`,
  ];
}

/** Releases the contacts of a push before their links are written, because it is unknown which values of the push the CRM has. */
export function letGo({ tenantId, sendId }: SendKey): Statement[] {
  return release(tenantId, sql`s.send_id = ${sendId}`);
}

/** Releases the contacts of all pushes of a tenant, before the contacts' links are written. */
export function letGoOfAll(tenantId: string): Statement[] {
  return release(tenantId, sql`true`);
}

/** Codes of errors that a retry cannot fix, for example a refused token or another CRM account. */
const FINAL: ReadonlySet<string | undefined> = new Set(["not_retryable", "config_invalid"]);

/** Runs a push. If the push fails permanently, its contacts are released. */
export async function orLetGo<Done>(db: D1Database, key: SendKey, work: () => Promise<Done>): Promise<Done> {
  try {
    return await work();
  } catch (error) {
    if (FINAL.has(errors.codeOf(error))) await atomically(db, letGo(key));
    throw error;
  }
}

function release(tenantId: string, which: Statement): Statement[] {
  const those = sql`s.tenant_id = ${tenantId} AND ${which}`;
  return [adopt(tenantId, those), sql`DELETE FROM crm_sends AS s WHERE ${those}`];
}

/** Fails the write if one of these contacts has a newer link version, is in another push, or if the tenant has another CRM account. */
export function refuseIfChanged(key: SendKey, account: Account, contacts: readonly Pick<SentContact, "id" | "version">[]): Statement {
  return refuseIf(key.tenantId, sql`${isOtherAccount(key.tenantId, account)} OR ${isPushedOrChanged(key, contacts)}`);
}

function isPushedOrChanged(key: SendKey, contacts: readonly Pick<SentContact, "id" | "version">[]): Statement {
  const rows = JSON.stringify(contacts);
  return sql`EXISTS (${othersOf(key, rows)}) OR ${isLinkWritten(key.tenantId, rows)}`;
}

/** True if the link of one of these contacts was written since this version. */
function isLinkWritten(tenantId: string, rows: string): Statement {
  return sql`
    EXISTS (SELECT 1 FROM json_each(${rows}) c
      LEFT JOIN crm_links l ON l.tenant_id = ${tenantId} AND l.contact_id = c.value->>'id'
      WHERE coalesce(l.version, 0) <> c.value->>'version')`;
}

/**
 * Fails the write if one of these contacts is in another push or has a link with a newer version. Unlike `refuseIfChanged`, this statement
 * accepts any account, for contacts that are being forgotten.
 */
export function refuseIfPushed(tenantId: string, contacts: readonly Pick<SentContact, "id" | "version">[]): Statement {
  return refuseIf(tenantId, isPushedOrChanged({ tenantId, sendId: "" }, contacts));
}

/** Fails the write if one of these contacts has a newer revision; revision 0 means that the contact did not exist. */
export function refuseIfWritten(tenantId: string, contacts: readonly { id: string; revision: number }[]): Statement {
  return refuseIf(
    tenantId,
    sql`
      EXISTS (SELECT 1 FROM json_each(${JSON.stringify(contacts)}) r
        LEFT JOIN contacts c ON c.tenant_id = ${tenantId} AND c.contact_id = r.value->>'id'
        WHERE coalesce(c.revision, 0) <> r.value->>'revision')`,
  );
}

/** True for the error of `refuseIfPushed` and similar functions. After this error the caller reads the contacts again. */
export function wasRefused(error: unknown): boolean {
  return errors.messageOf(error).includes("contact_changed_meanwhile");
}

/** Counts the pushes in progress whose values contain one of the given texts. */
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
    SELECT ${tenantId}, c.value->>'id', NULL, 'none', 0, '{}', c.value->'sent', ${sql.now} FROM crm_sends s, json_each(s.contacts) c
    WHERE ${which} AND json_array_length(c.value->'sent') > 0
    ON CONFLICT (tenant_id, contact_id) DO UPDATE SET
      maybe = (SELECT json_group_array(json(value))
        FROM (SELECT value FROM json_each(crm_links.maybe) UNION SELECT value FROM json_each(excluded.maybe))),
      revision = 0, version = crm_links.version + 1, updated_at = excluded.updated_at`;
}

/**
 * Retries work for a limited time while another push has reserved one of its contacts. Throws `retry_after` without a time, so that the
 * step retries after its own growing delays. A reservation usually ends long before its time limit.
 */
export async function inTurn<Done extends object>(work: () => Promise<Done | Busy>): Promise<Done> {
  const endsAt = Date.now() + PATIENCE_MS;
  for (let pauseMs = LOOK_AGAIN_MS.least; ; pauseMs = Math.min(pauseMs * 2, LOOK_AGAIN_MS.most)) {
    const done = await work();
    if (!("busyUntil" in done)) return done;
    if (Date.now() > endsAt) throw new MillraceError("retry_after", "Another sync has one of these contacts: this one waits for its end.");
    await scheduler.wait(done.busyUntil > 0 ? pauseMs : 1);
  }
}
