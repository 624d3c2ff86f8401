import type * as z from "zod";
import { codeOf, type Limit, MillraceError, messageOf, notRetryable } from "../engine/index.ts";
import { CRM_BATCH, type Crm, type CrmFound } from "./crm.ts";
import { missingProperties, traceOf, upsertBatch } from "./hubspot-batch.ts";
import { batchFault, hubspotRefusal, inWords, mayPass } from "./hubspot-refusal.ts";
import { Associated, Merged, Read, Renamed, Upserted } from "./hubspot-wire.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** The contact properties that `read` answers with if it is not told which, beside our own id. */
const CONTACT_PROPERTIES = ["email", "firstname", "lastname", "phone", "company", "jobtitle", "lifecyclestage"];

/**
 * HubSpot, by the CRM v3 objects and the v4 associations. Every call takes its place under the limit first. `idProperty` is a property of
 * contacts and companies with unique values (see docs/crm.md): it holds our name for a record, which is what makes a repeat harmless.
 */
export function hubspotCrm(upstream: Upstream, idProperty: string, limit: Limit): Crm {
  async function post<T>(path: string, body: unknown, schema: z.ZodType<T>, options: CallOptions): Promise<T> {
    await limit.take();
    const call = {
      method: "POST",
      path,
      headers: { "content-type": "application/json", authorization: `Bearer ${upstream.credential.value}` },
      body: JSON.stringify(body),
      meaning: (answer: Parameters<typeof hubspotRefusal>[1]) => hubspotRefusal(upstream, answer),
    } as const;
    try {
      return await callUpstream(upstream, call, schema, options);
    } catch (error) {
      // Somebody else uses up the account's limit too: all of us wait, not only this caller.
      if (isLimit(error)) await limit.pause(error.detail.delayMs ?? 0);
      throw error;
    }
  }

  async function read(crmIds: readonly string[], options: CallOptions, names: readonly string[] = CONTACT_PROPERTIES): Promise<CrmFound[]> {
    atMost(crmIds);
    if (crmIds.length === 0) return [];
    const properties = [idProperty, ...names];
    const inputs = [...new Set(crmIds)].map((id) => ({ id }));
    const { results } = await post("/crm/v3/objects/contacts/batch/read", { inputs, properties, propertiesWithHistory: [] }, Read, options);
    return results.map(({ id, properties: found, updatedAt, archived }) => {
      // HubSpot may leave out what is empty; for us an empty property is a fact as well.
      const known = Object.fromEntries(names.map((name) => [name, found[name] || null]));
      return { crmId: id, key: found[idProperty] || null, properties: known, updatedAt, archived };
    });
  }

  /** Without its id property nothing can be sent at all: no record is to blame. */
  function withoutIdProperty(error: unknown): never {
    const fault = batchFault(error);
    if (fault && (/non-unique/.test(fault.message) || missingProperties(fault).includes(idProperty))) {
      throw notRetryable(`${messageOf(error)} Create the property ${idProperty} with unique values, as docs/crm.md says.`, 400);
    }
    throw error;
  }

  return {
    upsert(object, records, options) {
      atMost(records);
      return upsertBatch(upstream, idProperty, records, (part) => {
        const inputs = part.map((record) => ({
          id: record.key,
          idProperty,
          objectWriteTraceId: traceOf(record),
          properties: { ...record.properties, [idProperty]: record.key },
        }));
        return post(`/crm/v3/objects/${object}/batch/upsert`, { inputs }, Upserted, options).catch(withoutIdProperty);
      });
    },

    async associate(pairs, options) {
      atMost(pairs);
      if (pairs.length === 0) return;
      const inputs = pairs.map(({ contact, company }) => ({ from: { id: contact }, to: { id: company } }));
      const { errors } = await post("/crm/v4/associations/contacts/companies/batch/associate/default", { inputs }, Associated, options);
      const [fault] = errors;
      if (!fault) return;
      const said = `${upstream.name} refused ${errors.length} of ${pairs.length} associations: ${inWords(upstream, fault)}`;
      throw mayPass(fault) ? new MillraceError("upstream_refused", said) : notRetryable(said);
    },

    read,

    async name(records, options) {
      atMost(records);
      if (records.length === 0) return;
      const inputs = records.map(({ crmId, key }) => ({ id: crmId, properties: { [idProperty]: key } }));
      const { errors } = await post("/crm/v3/objects/contacts/batch/update", { inputs }, Renamed, options).catch(withoutIdProperty);
      const [fault] = errors;
      if (!fault) return;
      const said = `${upstream.name} refused ${errors.length} of ${records.length} names: ${inWords(upstream, fault)}`;
      throw mayPass(fault) ? new MillraceError("upstream_refused", said) : notRetryable(said);
    },

    async merge(kept, merged, options) {
      try {
        const { id } = await post("/crm/v3/objects/contacts/merge", { primaryObjectId: kept, objectIdToMerge: merged }, Merged, options);
        return id;
      } catch (error) {
        if (!batchFault(error) && codeOf(error) !== "not_retryable") throw error;
        // A merge whose answer was lost is refused when it is repeated. Both ids answer for one record then.
        const [one, two] = await Promise.all([read([kept], options), read([merged], options)]);
        if (one[0] && one[0].crmId === two[0]?.crmId) return one[0].crmId;
        throw error;
      }
    },
  };
}

function isLimit(error: unknown): error is MillraceError {
  return error instanceof MillraceError && error.code === "retry_after" && error.detail.upstreamStatus === 429;
}

function atMost(list: readonly unknown[]): void {
  if (list.length > CRM_BATCH) throw notRetryable(`The CRM takes at most ${CRM_BATCH} in one call, and these are ${list.length}.`);
}
