import { enqueue, errors, ids, MillraceError } from "millrace";
import { act, actions, type BulkCall, defineBulkVerb } from "millrace/operate";
import * as z from "zod";
import type { RecordedFact } from "../../messages/fact.ts";
import { WebhookDeliver, type WebhookDelivery } from "../../messages/webhooks.ts";
import { appendFacts, ledgerOf } from "../facts/ledger/ledgers.ts";
import { outcomesOf } from "./bulk-redeliver.ts";
import { laterOf, laterRow, selectOwed, touchDelivery } from "./deliveries.ts";
import { type Version, versionsOf } from "./endpoints.ts";
import { laterDelivery } from "./offer.ts";
import { matched } from "./outcome.ts";
import { redeliver } from "./redeliver.ts";

const moment = z.iso.datetime({ offset: true });

/** The parts of a listed fact's id: the endpoint, and the fact's ledger, name and position. */
interface Owed {
  endpointId: string;
  entity: string;
  factId: string;
  sequence: number;
}

/**
 * Delivers the facts of a period that were not delivered to an endpoint, because the endpoint was disabled or is new. Delivery, key and
 * `webhook-id` are the same as in a normal delivery of the fact. Therefore a delivered fact is not delivered again.
 */
export const deliverFacts = defineBulkVerb({
  name: "deliver",
  noun: "facts",
  filter: z.strictObject({ endpoint_id: z.string().min(1).max(64), since: moment, until: moment.optional() }),
  members: ({ tenantId }, { endpoint_id, since, until }) =>
    selectOwed(tenantId, endpoint_id, {
      since: Date.parse(since),
      until: until === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(until),
    }),
  async refusal({ env, by }, id) {
    await enabledVersions(env.DB, by.tenantId, owedIn(id).endpointId);
    return null;
  },
  act: deliverOne,
  async outcomes({ env, catalog, by }, acted) {
    const ids = new Map(acted.map(({ id }) => [deliveryId({ catalog, by }, owedIn(id)), id]));
    const outcomes = await outcomesOf(env.DB, by.tenantId, [...ids.keys()]);
    return new Map([...outcomes].map(([id, outcome]) => [ids.get(id) ?? id, outcome]));
  },
});

async function deliverOne(call: BulkCall, id: string) {
  const { env, catalog, by, reason, bulkId } = call;
  const { tenantId } = by;
  const { endpointId, entity, sequence } = owedIn(id);
  const versions = await enabledVersions(env.DB, tenantId, endpointId);
  const ledger = ledgerOf(env as unknown as Env, tenantId, entity);
  const [fact] = (await ledger.read(sequence - 1, 1)) as unknown as RecordedFact[];
  const payload = fact?.sequence === sequence ? laterDelivery(versions, fact) : undefined;
  if (!fact || !payload) return unchanged("The fact's ledger does not keep the fact any more.");

  const delivery = deliveryId({ catalog, by }, { endpointId, entity, factId: fact.fact_id });
  const request = ids.digest("deliver", bulkId ?? "");
  const known = await laterOf(env.DB, tenantId, delivery, request);
  if (known && !known.isOwn) {
    if (known.isSent || !["skipped", "gone"].includes(known.state))
      return unchanged(`Its delivery is ${known.isSent ? "sent" : known.state}.`);
    const asked = { endpointId, which: { id: delivery }, key: `bulk/${bulkId}`, reason };
    const { instanceIds } = await redeliver(env, catalog, by, asked);
    return instanceIds.length > 0 ? { changed: true } : unchanged("Another request has redelivered the fact.");
  }
  if (!known && !(await send(call, fact, { payload, delivery, request }))) {
    return unchanged("The fact's delivery is not kept any more: whether it was sent is unknown, so it is not sent again.");
  }
  // The match is recorded after the delivery, because the match contains the delivery's id. The audit row is written last, so that a
  // repeated call writes all missing parts.
  const { tenant_id, trace_id, traceparent, tracestate, correlation_id, causation_id } = fact;
  const provenance = { tenant_id, trace_id, traceparent, tracestate, correlation_id, causation_id };
  await appendFacts(env as unknown as Env, provenance, [matched({ ...payload, id: delivery }, new Date().toISOString())]);
  const action = { id: actions.idOf(by), verb: "deliver", target: endpointId, instanceId: delivery, reason };
  await act(env, by, action, { change: touchDelivery(tenantId, delivery) });
  return { changed: true };
}

interface Sending {
  payload: WebhookDelivery;
  delivery: string;
  request: string;
}

/** Commits the delivery and its command. Returns false if a command has the same key, which happens if the delivery's row was removed. */
async function send({ env, catalog, by }: BulkCall, fact: RecordedFact, { payload, delivery, request }: Sending): Promise<boolean> {
  const { tenantId } = by;
  const { correlation_id, entity, fact_id, trace_id, traceparent = `00-${trace_id}-${"1".padStart(16, "0")}-01`, tracestate } = fact;
  const said = { correlationId: correlation_id, causationId: `${entity}/${fact_id}`, traceparent, tracestate };
  const command = { command: WebhookDeliver, payload, ...said };
  const [answer] = await enqueue(
    env,
    catalog,
    { tenantId, source: "operator" },
    [command],
    [laterRow(tenantId, delivery, payload, request)],
  );
  if (answer instanceof MillraceError) {
    if (errors.codeOf(answer) === "idempotency_key_reused") return false;
    throw answer;
  }
  return answer?.replayed === false;
}

/** Returns the stored versions of an enabled endpoint. Throws `invalid_transition` for an endpoint that is not enabled. */
async function enabledVersions(db: D1Database, tenantId: string, id: string): Promise<Version[]> {
  const versions = await versionsOf(db, tenantId, id);
  const state = versions.at(-1)?.state;
  if (state === "enabled") return versions;
  throw new MillraceError("invalid_transition", `The endpoint is ${state ?? "not there"}: enable it, then deliver to it.`, { from: state });
}

function deliveryId({ catalog, by }: Pick<BulkCall, "catalog" | "by">, { endpointId, entity, factId }: Omit<Owed, "sequence">): string {
  const named = { endpoint_id: endpointId, entity, fact_id: factId } as WebhookDelivery;
  return ids.instance(by.tenantId, catalog.performer(WebhookDeliver.type).name, WebhookDeliver.key?.(named) ?? "");
}

/** Parses the id of a listed fact. Throws `invalid_payload` for a text that is not an id of a listed fact. */
function owedIn(id: string): Owed {
  try {
    const [endpointId, entity, factId, sequence] = z.tuple([z.string(), z.string(), z.string(), z.int()]).parse(JSON.parse(id));
    return { endpointId, entity, factId, sequence };
  } catch {
    throw new MillraceError("invalid_payload", "This is no fact of a list: use a filter in place of ids.");
  }
}

function unchanged(why: string) {
  return { changed: false, why };
}
