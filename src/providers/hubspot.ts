import { errors, MillraceError, notRetryable } from "millrace";
import type { Limit } from "millrace/limits";
import type * as z from "zod";
import { CRM_BATCH, type Crm, type CrmFound, type CrmReadBy, type CrmReading } from "./crm.ts";
import { missingProperties, type Sent, traceOf, upsertBatch } from "./hubspot-batch.ts";
import { inHalves } from "./hubspot-halves.ts";
import { asRefusal, batchFault, GONE, hubspotRefusal } from "./hubspot-refusal.ts";
import { Associated, Erased, Merged, Read, Renamed, Upserted } from "./hubspot-wire.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** The contact properties that `read` returns by default, besides the app's key. */
const CONTACT_PROPERTIES = ["email", "firstname", "lastname", "phone", "company", "jobtitle", "lifecyclestage"];

/**
 * The CRM connector for HubSpot, by its CRM v3 objects and v4 associations. Every call to HubSpot first takes a slot of the shared rate
 * limit. `idProperty` is a property of contacts and companies with unique values (see docs/crm.md). The property contains the app's key for
 * a record, which makes calls repeatable.
 */
export function hubspotCrm(upstream: Upstream, idProperty: string, limit: Pick<Limit, "take" | "heed">): Crm {
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
      // Other programs use the account's limit too, so after a 429 all callers in this app wait and then slow down.
      if (isLimit(error)) await limit.heed(heardIn(error.detail));
      throw error;
    }
  }

  async function read(
    ids: readonly string[],
    options: CallOptions,
    names: readonly string[] = CONTACT_PROPERTIES,
    by: CrmReadBy = "id",
  ): Promise<CrmReading> {
    atMost(ids);
    const properties = [idProperty, ...names];
    const found = new Map<string, CrmFound>();
    const asked = [...new Set(ids)].map((crmId) => ({ crmId }));
    const named = (key: string) => [...found.values()].some((one) => one.key === key);
    const refused = await inHalves(upstream, asked, async (part) => {
      const inputs = part.map(({ crmId }) => ({ id: crmId }));
      const body = { ...(by === "name" && { idProperty }), inputs, properties, propertiesWithHistory: [] };
      const answer = await post("/crm/v3/objects/contacts/batch/read", body, Read, options).catch(withoutIdProperty);
      for (const { id, properties: values, updatedAt, archived } of answer.results) {
        // HubSpot may omit empty properties, but callers need an explicit null for each empty property.
        const known = Object.fromEntries(names.map((name) => [name, values[name] || null]));
        found.set(id, { crmId: id, key: values[idProperty] || null, properties: known, updatedAt, archived });
      }
      const { status, numErrors, errors } = answer;
      const gone = new Set(errors.flatMap(({ category, context }) => (category === GONE ? (context.ids ?? []) : [])));
      // A record that a complete response omits does not exist any more. An incomplete response of HubSpot does not show that a record is
      // missing.
      const isWhole = status === "COMPLETE" && numErrors <= Math.max(errors.length, gone.size);
      const silent = isWhole ? [] : part.filter(({ crmId }) => !gone.has(crmId) && !(by === "id" ? found.has(crmId) : named(crmId)));
      // A missing record is a valid result of reading, not an error.
      return { errors: errors.filter(({ category }) => category !== GONE), silent };
    });
    return { found: [...found.values()], refused };
  }

  /** Throws the error that the id property does not exist, because no record can be sent without it. */
  function withoutIdProperty(error: unknown): never {
    const fault = batchFault(error);
    if (fault && (/non-unique/.test(fault.message) || missingProperties(fault).includes(idProperty))) {
      throw notRetryable(`${errors.messageOf(error)} Create the property ${idProperty} with unique values, as docs/crm.md says.`, 400);
    }
    throw error;
  }

  return {
    upsert(object, records, options, asRead) {
      atMost(records);
      const send = (part: readonly Sent[]) => {
        const inputs = part.map((record) => ({
          id: record.key,
          idProperty,
          objectWriteTraceId: traceOf(record),
          properties: { ...record.properties, [idProperty]: record.key },
        }));
        return post(`/crm/v3/objects/${object}/batch/upsert`, { inputs }, Upserted, options).catch(withoutIdProperty);
      };
      return upsertBatch(upstream, idProperty, records, { post: send, asRead });
    },

    associate(pairs, options) {
      atMost(pairs);
      const named = pairs.map(({ contact, company }) => ({ crmId: contact, company }));
      return inHalves(upstream, named, async (part) => {
        const inputs = part.map(({ crmId, company }) => ({ from: { id: crmId }, to: { id: company } }));
        const path = "/crm/v4/associations/contacts/companies/batch/associate/default";
        const { results, errors } = await post(path, { inputs }, Associated, options);
        const asked = new Set(part.map(({ crmId }) => crmId));
        // HubSpot returns a merged contact under the id of the resulting contact.
        const isMade = (pair: (typeof part)[number]) =>
          results.some(({ from, to }) => to.id === pair.company && (from.id === pair.crmId || !asked.has(from.id)));
        return { errors, silent: part.filter((pair) => !isMade(pair)) };
      });
    },

    read,

    name(records, options) {
      atMost(records);
      return inHalves(upstream, records, async (part) => {
        const inputs = part.map(({ crmId, key }) => ({ id: crmId, properties: { [idProperty]: key } }));
        const answer = await post("/crm/v3/objects/contacts/batch/update", { inputs }, Renamed, options).catch(withoutIdProperty);
        const isNamed = ({ crmId, key }: (typeof part)[number]) =>
          answer.results.some(({ id, properties: { [idProperty]: name } }) => name === key || (id === crmId && name === undefined));
        return { errors: answer.errors, silent: part.filter((one) => !isNamed(one)) };
      });
    },

    async merge(kept, merged, options) {
      try {
        const { id } = await post("/crm/v3/objects/contacts/merge", { primaryObjectId: kept, objectIdToMerge: merged }, Merged, options);
        return { state: "done", crmId: id };
      } catch (error) {
        const fault = batchFault(error);
        if (!fault) throw error;
        // If the response to a merge was lost, HubSpot refuses the repeated merge. In this case both ids lead to one record.
        const [one, two] = (await Promise.all([read([kept], options), read([merged], options)])).map(({ found }) => found[0]?.crmId);
        return one !== undefined && one === two ? { state: "done", crmId: one } : { state: "failed", ...asRefusal(upstream, fault) };
      }
    },

    async erase(crmId, options) {
      try {
        await post("/crm/v3/objects/contacts/gdpr-delete", { objectId: crmId }, Erased, options);
      } catch (error) {
        if (batchFault(error)?.category === GONE) return;
        throw error;
      }
    },
  };
}

function isLimit(error: unknown): error is MillraceError {
  return error instanceof MillraceError && error.code === "retry_after" && error.detail.upstreamStatus === 429;
}

/**
 * Converts HubSpot's delay for a reached limit to the header `Retry-After`, which other upstreams send. The delay depends on HubSpot's
 * policy.
 */
function heardIn({ upstreamStatus = 0, delayMs = 0 }: MillraceError["detail"]): Parameters<Limit["heed"]>[0] {
  return { status: upstreamStatus, headers: { "retry-after": String(Math.ceil(delayMs / 1000)) } };
}

function atMost(list: readonly unknown[]): void {
  if (list.length > CRM_BATCH) throw notRetryable(`The CRM takes at most ${CRM_BATCH} in one call, and these are ${list.length}.`);
}
