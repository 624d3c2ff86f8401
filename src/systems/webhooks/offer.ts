import type { Routed } from "millrace";
import type { RecordedFact } from "../../messages/fact.ts";
import { WEBHOOK_TEST, type WebhookDelivery } from "../../messages/webhooks.ts";
import { ownFact } from "../facts/own.ts";
import { type Endpoint, type Version, versionsSince } from "./endpoints.ts";

const DAY_MS = 86_400_000;

/**
 * Creates one delivery for each endpoint that matches a fact. The endpoint's version at the time of the fact's recording decides. A
 * repeated message of the fact therefore gives the same deliveries, even after a change of an endpoint. In a batch, the facts of one day
 * share one read of the versions.
 */
export async function offer(told: Routed<RecordedFact>): Promise<WebhookDelivery[]> {
  const fact = ownFact(told);
  const { env, envelope, once } = told;
  const tenantId = envelope.tenant_id;
  const at = Date.parse(fact.recorded_at);
  const day = at - (at % DAY_MS);
  const versions = await once(`webhooks of ${tenantId} since ${day}`, () => versionsSince(env.DB, tenantId, day));
  const matching = inForce(versions, at).filter((version) => matches(version, fact));
  const body = matching.length > 0 ? bodyOf(fact) : "";
  return matching.map((version) => deliveryTo(version, fact, body));
}

/**
 * Returns the delivery of a fact that is sent later to one endpoint. If the endpoint's version at the fact's recording matched the fact,
 * that version is used, otherwise the newest version.
 */
export function laterDelivery(versions: readonly Version[], fact: RecordedFact): WebhookDelivery | undefined {
  const [then] = inForce(versions, Date.parse(fact.recorded_at)).filter((version) => matches(version, fact));
  const version = then ?? versions.at(-1);
  return version && deliveryTo(version, fact, bodyOf(fact));
}

function matches({ state, fact_types }: Version, { type }: RecordedFact): boolean {
  return state === "enabled" && fact_types.includes(type);
}

function deliveryTo({ id, version }: Version, { entity, fact_id, type }: RecordedFact, body: string): WebhookDelivery {
  return { endpoint_id: id, config_version: version, entity, fact_id, fact_type: type, body };
}

/**
 * Returns, for each endpoint, the version that was current at the given time. If that version was pruned, the oldest stored version is
 * used.
 */
function inForce(versions: readonly Version[], at: number): Version[] {
  const newest = new Map<string, Version>();
  for (const version of versions) {
    const isOldest = !newest.has(version.id) && version.created_at <= at;
    if (version.changed_at <= at || isOldest) newest.set(version.id, version);
  }
  return [...newest.values()];
}

/** The body of a webhook request, as Standard Webhooks recommends: type, time and data. */
function bodyOf(fact: RecordedFact): string {
  const { type, occurred_at, fact_id, entity, subtype, sequence, recorded_at, trace_id, correlation_id, payload } = fact;
  const data = { fact_id, entity, ...(subtype !== undefined && { subtype }), sequence, recorded_at, trace_id, correlation_id, payload };
  return JSON.stringify({ type, timestamp: occurred_at, data });
}

export function testOf({ id, version }: Pick<Endpoint, "id" | "version">): WebhookDelivery {
  const fact_id = `test-${crypto.randomUUID()}`;
  const body = JSON.stringify({ type: WEBHOOK_TEST, timestamp: new Date().toISOString(), data: { endpoint_id: id, fact_id } });
  return { endpoint_id: id, config_version: version, entity: `webhook/${id}`, fact_id, fact_type: WEBHOOK_TEST, body };
}
