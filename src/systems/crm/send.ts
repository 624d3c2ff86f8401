import type { TraceContext } from "millrace";
import type { Crm, CrmOutcome, CrmRefusal, CrmRefusals } from "../../providers/index.ts";
import { companyKey, contactKey } from "./keys.ts";
import type { Work } from "./prepared.ts";
import { MERGED_THERE } from "./records.ts";

/** The CRM's client, and the tenant of the contacts. */
export interface SendCall {
  upstream: Crm;
  tenantId: string;
  options: { key: string; trace: TraceContext };
}

/** The result of sending one contact's record. */
export type Sending =
  | { state: "failed"; why: CrmRefusal }
  /**
   * `isAnew`: the contact's record was deleted after it was read, and this record replaces it. `unconnected`: the reason why the CRM
   * refused the contact's company, or the connection to it.
   */
  | { state: "done"; crmId: string; isAnew?: boolean; unconnected?: CrmRefusal | undefined };

type Outcomes = ReadonlyMap<string, CrmOutcome>;

/** True if the contact has values that must be sent to the CRM. */
export function isToSend({ settled }: Work): boolean {
  return Object.keys(settled.send).length > 0;
}

/** Returns the company with which the contact must be connected, if the last known record has another company or none. */
export function employerOf({ settled: { send, seen, take } }: Work): string | undefined {
  return (send.company ?? ("company" in take ? undefined : seen.company))?.trim() || undefined;
}

/** Upserts the records of contacts. Returns the results by contact id. */
export async function sendContacts({ upstream, tenantId, options }: SendCall, work: readonly Work[]): Promise<Outcomes> {
  const records = work.filter(isToSend).map(({ id, settled }) => ({ id, key: contactKey(tenantId, id), properties: settled.send }));
  if (records.length === 0) return new Map();
  const outcomes = await upstream.upsert(
    "contacts",
    records.map(({ key, properties }) => ({ key, properties })),
    options,
    (keys) => asRead({ upstream, tenantId, options }, work, new Set(keys)),
  );
  const byKey = new Map(outcomes.map((outcome) => [outcome.key, outcome]));
  return new Map(
    records.map(({ id, key }) => {
      const outcome = byKey.get(key);
      if (!outcome) throw new Error(`The CRM's response has no result for the contact ${id}.`);
      return [id, outcome];
    }),
  );
}

/** Returns the keys of the records that have not changed in the CRM since they were read. */
async function asRead({ upstream, tenantId, options }: SendCall, work: readonly Work[], keys: ReadonlySet<string>): Promise<Set<string>> {
  const meant = work.map((one) => ({ ...one, key: contactKey(tenantId, one.id) })).filter(({ key }) => keys.has(key));
  const crmIds = meant.flatMap(({ crmId }) => crmId ?? []);
  // If a contact had no record at the time of the read, an earlier attempt may have created the record.
  const names = meant.flatMap(({ crmId, maybe, key }) => (crmId === null && maybe.length > 0 ? [key] : []));
  const [byId, byName] = await Promise.all([upstream.read(crmIds, options, []), upstream.read(names, options, [], "name")]);
  const changedAt = new Map(byId.found.flatMap((one) => (one.archived ? [] : [[one.crmId, Date.parse(one.updatedAt)]])));
  const isNew = ({ key }: { key: string }) => !byName.refused.has(key) && !byName.found.some((one) => one.key === key);
  const same = meant.filter((one) => (one.crmId === null ? isNew(one) : changedAt.get(one.crmId) === one.readAt));
  return new Set(same.map(({ key }) => key));
}

/** Upserts the companies of contacts. Returns the results by contact id. */
export async function sendCompanies({ upstream, tenantId, options }: SendCall, work: readonly Work[]): Promise<Outcomes> {
  const employed = work.flatMap((one) => {
    const name = employerOf(one);
    return name ? [{ id: one.id, key: companyKey(tenantId, name), name }] : [];
  });
  if (employed.length === 0) return new Map();
  const firms = new Map(employed.map(({ key, name }) => [key, { key, properties: { name } }]));
  const outcomes = new Map((await upstream.upsert("companies", [...firms.values()], options)).map((outcome) => [outcome.key, outcome]));
  return new Map(
    employed.flatMap(({ id, key }) => {
      const outcome = outcomes.get(key);
      return outcome ? [[id, outcome] as const] : [];
    }),
  );
}

/** Connects contacts with their companies, by the CRM's ids. */
export async function connect(
  { upstream, options }: SendCall,
  pairs: readonly { contact: string; company: string }[],
): Promise<CrmRefusals> {
  return pairs.length > 0 ? upstream.associate(pairs, options) : new Map();
}

/**
 * Returns contacts whose record was created again because the CRM had merged the previous record. The CRM's notice will identify both
 * records.
 */
async function mergedMeanwhile(
  { upstream, options }: SendCall,
  work: readonly Work[],
  sendings: ReadonlyMap<string, Sending>,
): Promise<string[]> {
  const anew = work.filter(({ id }) => {
    const sending = sendings.get(id);
    return sending?.state === "done" && sending.isAnew;
  });
  const old = anew.flatMap(({ crmId }) => crmId ?? []);
  const { found } = old.length > 0 ? await upstream.read(old, options, []) : { found: [] };
  return found.some(({ crmId }) => !old.includes(crmId)) ? anew.map(({ id }) => id) : [];
}

/**
 * Upserts contacts and their companies, then connects them. Returns the results by contact id, without an entry for a contact that has no
 * changes.
 */
export async function send(call: SendCall, work: readonly Work[]): Promise<Map<string, Sending>> {
  const [people, firms] = await Promise.all([sendContacts(call, work), sendCompanies(call, work)]);
  const sendings = new Map<string, Sending>();
  const hadRecord = new Set(work.filter(({ crmId }) => crmId !== null).map(({ id }) => id));
  for (const [id, outcome] of people) {
    if (outcome.state === "failed") sendings.set(id, { state: "failed", why: outcome });
    else sendings.set(id, { state: "done", crmId: outcome.crmId, isAnew: outcome.created && hadRecord.has(id) });
  }
  for (const id of await mergedMeanwhile(call, work, sendings)) sendings.set(id, { state: "failed", why: MERGED_THERE });
  const pairs: { id: string; contact: string; company: string }[] = [];
  for (const { id, crmId } of work) {
    const [taken, company] = [sendings.get(id), firms.get(id)];
    const contact = taken ? taken.state === "done" && taken.crmId : crmId;
    if (!contact || !company) continue;
    if (company.state === "done") pairs.push({ id, contact, company: company.crmId });
    else sendings.set(id, { ...taken, state: "done", crmId: contact, unconnected: company });
  }
  const unconnected = await connect(
    call,
    pairs.map(({ contact, company }) => ({ contact, company })),
  );
  for (const { id, contact } of pairs)
    sendings.set(id, { ...sendings.get(id), state: "done", crmId: contact, unconnected: unconnected.get(contact) });
  return sendings;
}
