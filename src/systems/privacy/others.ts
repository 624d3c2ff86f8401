import { atomically, notRetryable, query, sql } from "millrace";
import type { Rewritten } from "millrace/operate";
import { type CallOptions, CRM_BATCH, crm } from "../../providers/index.ts";
import { rewriteProperties } from "../contacts/contact.ts";
import { renamedWithoutPerson, textWithoutPerson, withoutPerson } from "../contacts/properties.ts";
import type { Traces } from "../contacts/traces.ts";
import { readOf } from "../crm/account.ts";
import { contactKey } from "../crm/keys.ts";
import { rewriteLink } from "../crm/links.ts";
import { type Properties, propertyNames } from "../crm/properties.ts";
import { busyWith, refuseIfPushed, sendsSaying, wasRefused } from "../crm/sends.ts";

/** Maximum number of contacts that one slice scans. */
const ROWS = 500;

interface Search {
  env: Env;
  tenantId: string;
  traces: Traces;
  /** False if mentions are only counted. */
  apply: boolean;
  asker: CallOptions;
}

/** A contact that may mention the person, with the contact's CRM state. */
interface Row extends Record<string, unknown> {
  id: string;
  properties: string;
  crm_id: string | null;
  version: number | null;
  known: string | null;
  maybe: string | null;
  error: string | null;
}

/** A contact that mentions the person, with the contact's rewritten texts. */
interface Rewrite {
  row: Row;
  properties: string;
  known: string;
  maybe: string;
  error: string | null;
  /** True if the CRM may contain these texts too. */
  isShared: boolean;
}

/**
 * Rewrites mentions of the person in one slice of other people's contacts. Texts that the CRM has too are rewritten first in the CRM and
 * then in our rows. A contact and its CRM record therefore have the same text before and after. No sync restores the old text, or treats
 * the new text as a change.
 */
export async function rewriteContacts(search: Search, from: string | null): Promise<Rewritten> {
  const { env, tenantId, traces, apply } = search;
  const behind = sql`c.tenant_id = ${tenantId} AND c.contact_id > ${from ?? ""}`;
  const [last] = await query<{ id: string }>(
    env.DB,
    sql`SELECT c.contact_id AS id FROM contacts c WHERE ${behind} ORDER BY c.contact_id LIMIT 1 OFFSET ${ROWS - 1}`,
  );
  const rows = await query<Row>(
    env.DB,
    sql`
      SELECT c.contact_id AS id, c.properties, l.crm_id, l.version, l.known, l.maybe, l.error
      FROM contacts c LEFT JOIN crm_links l ON l.tenant_id = c.tenant_id AND l.contact_id = c.contact_id
      WHERE ${behind} ${last ? sql`AND c.contact_id <= ${last.id}` : sql``}
        AND EXISTS (SELECT 1 FROM json_each(${JSON.stringify(traces.mentions)}) m WHERE instr(lower(
          c.properties || char(10) || coalesce(l.known, '') || char(10) || coalesce(l.maybe, '') || char(10) ||
            coalesce(l.error, '')), m.value) > 0)
      ORDER BY c.contact_id`,
  );
  const meant = rows.flatMap((row) => rewriteOf(env, row, traces) ?? []);
  const next = last?.id ?? null;
  if (!apply) return { changed: meant.length, waiting: 0, next };
  let changed = 0;
  for (let at = 0; at < meant.length; at += CRM_BATCH) changed += await write(search, meant.slice(at, at + CRM_BATCH));
  const onTheirWay = next === null ? await sendsSaying(env.DB, tenantId, traces.mentionsInJson) : 0;
  return { changed, waiting: meant.length - changed + onTheirWay, next };
}

function rewriteOf(env: object, row: Row, traces: Traces): Rewrite | undefined {
  const [known, maybe] = [row.known ?? "{}", row.maybe ?? "[]"];
  const values = JSON.parse(maybe) as Properties[];
  const rewritten = values.map((one) => withoutPerson(one, traces));
  const now = {
    properties: textWithoutPerson(row.properties, traces, renamedWithoutPerson),
    known: textWithoutPerson(known, traces),
    maybe: rewritten.every((one, index) => one === values[index]) ? maybe : JSON.stringify(rewritten),
    error: row.error && traces.rewrite("error", row.error),
  };
  const isSame = now.properties === row.properties && now.known === known && now.maybe === maybe && now.error === row.error;
  if (isSame) return undefined;
  const said = [row.properties, known, ...values.map((one) => JSON.stringify(one))].map((text) => JSON.parse(text) as Properties);
  const isShared = propertyNames(env).some((name) => said.some((one) => withoutPerson(one, traces)[name] !== one[name]));
  return { row, ...now, isShared: isShared && row.crm_id !== null };
}

/**
 * Writes the rewritten texts of all given contacts in one write, and returns the number of these contacts. The write waits while a sync has
 * reserved one of the contacts.
 */
async function write(search: Search, rewrites: readonly Rewrite[]): Promise<number> {
  const { env, tenantId } = search;
  const ids = rewrites.map(({ row }) => row.id);
  if (await busyWith(env.DB, tenantId, ids)) return 0;
  await rewriteRecords(search, rewrites);
  const versions = rewrites.map(({ row: { id, version } }) => ({ id, version: version ?? 0 }));
  const writes = rewrites.flatMap(({ row, properties, ...link }) => [
    rewriteLink(tenantId, { ...link, contactId: row.id, properties: properties === row.properties ? null : row.properties }),
    ...(properties === row.properties ? [] : [rewriteProperties(tenantId, row.id, row.properties, properties)]),
  ]);
  try {
    await atomically(env.DB, [refuseIfPushed(tenantId, versions), ...writes]);
    return rewrites.length;
  } catch (error) {
    if (wasRefused(error)) return 0;
    throw error;
  }
}

/**
 * Rewrites mentions of the person in the contacts' CRM records. The current texts of the CRM are rewritten, so that changes by people in
 * the CRM remain. A record without the contact's key belongs to another contact. Throws `not_retryable` for a contact whose record or new
 * text the CRM refuses.
 */
async function rewriteRecords({ env, tenantId, traces, asker }: Search, rewrites: readonly Rewrite[]): Promise<void> {
  const shared = rewrites.filter(({ isShared }) => isShared);
  if (shared.length === 0) return;
  // This read throws an error if the deployment has another CRM account, where the same ids may belong to other people.
  await readOf(env, tenantId, sql`SELECT 1`);
  const upstream = crm(env, tenantId);
  const owners = new Map(shared.map(({ row }) => [row.crm_id ?? "", row.id]));
  const { found, refused } = await upstream.read([...owners.keys()], asker, propertyNames(env));
  const [unseen] = refused.keys();
  if (unseen !== undefined) throw untaken(owners.get(unseen) ?? unseen);
  const records = found.flatMap(({ crmId, key, archived, properties }) => {
    const owner = owners.get(crmId);
    if (archived || owner === undefined || key !== contactKey(tenantId, owner)) return [];
    const now = withoutPerson(properties, traces);
    const changes = Object.entries(now).flatMap(([name, value]) => (value === properties[name] || value === null ? [] : [[name, value]]));
    return changes.length > 0 ? [{ key, properties: Object.fromEntries(changes) as Record<string, string> }] : [];
  });
  if (records.length === 0) return;
  const outcomes = await upstream.upsert("contacts", records, asker);
  const failed = outcomes.find(({ state }) => state === "failed");
  if (!failed) return;
  throw "retry" in failed && failed.retry
    ? new Error("The CRM deferred texts of other contacts that mention the person.")
    : untaken(failed.key);
}

/** The CRM's message is not repeated, because it may contain the text. */
function untaken(contact: string): Error {
  return notRetryable(
    `The record of ${contact} mentions the person to forget, and the CRM refuses to rewrite it. Remove the text there manually, then retry.`,
  );
}
