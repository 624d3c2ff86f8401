import { beginning, type Draft, type Writes } from "millrace";
import type { StatedFact } from "../../messages/fact.ts";
import { FactObserved } from "../../messages/facts.ts";
import { WEBHOOK_TEST } from "../../messages/webhooks.ts";
import { type Attempt, type Delivery, logAttempt, settleDelivery } from "./deliveries.ts";
import { disableGone } from "./endpoints.ts";

/** The receiver has taken it. */
export function wasSent(delivery: Delivery, attempt: Attempt): Writes {
  const sent = { ...about(delivery), status: attempt.status ?? 0, attempts: attempt.attempt };
  return {
    statements: [logAttempt(delivery.tenant_id, delivery.id, attempt), settleDelivery(delivery, "sent")],
    emit: facts(delivery, { ...named(delivery, "sent", attempt.at), type: "webhook_sent", payload: sent }),
  };
}

/** The receiver wants nothing more: its endpoint is disabled, unless somebody has changed it in the meantime. */
export function wasGone(delivery: Delivery, attempt: Attempt): Writes {
  const { tenant_id, endpoint_id, id } = delivery;
  const reason = "The receiver answered 410 Gone.";
  return {
    statements: [
      logAttempt(tenant_id, id, attempt),
      settleDelivery(delivery, "gone"),
      ...disableGone(tenant_id, endpoint_id, attempt.version, reason),
    ],
    emit: failed(delivery, "gone", attempt.status, reason, attempt.at),
  };
}

/** Its endpoint is deleted, or was off for too long: nothing was sent. */
export function wasSkipped(delivery: Delivery, why: string): Writes {
  return {
    statements: [settleDelivery(delivery, "skipped")],
    emit: failed(delivery, "skipped", null, why, new Date().toISOString()),
  };
}

/** Every attempt has failed: an operator decides. */
export function wasGivenUp(delivery: Delivery, status: number | null, reason: string): Writes {
  return {
    statements: [settleDelivery(delivery, "failed")],
    emit: failed(delivery, "failed", status, beginning(reason, 1000), new Date().toISOString()),
  };
}

/** Named after the way it failed: after an operator's retry a delivery may fail another way, and that is another fact. */
function failed(delivery: Delivery, how: "failed" | "gone" | "skipped", status: number | null, reason: string, at: string): Draft[] {
  const payload = { ...about(delivery), status, reason };
  return facts(delivery, { ...named(delivery, how, at), type: "webhook_failed", payload });
}

/** What became of the match, as a fact of the endpoint's ledger. A test is no fact's. */
function facts(delivery: Delivery, outcome: StatedFact): Draft[] {
  return delivery.fact_type === WEBHOOK_TEST ? [] : [FactObserved.from(outcome)];
}

/** That a fact has met an endpoint: stated right then, whatever becomes of it. `at`: ISO 8601. */
export function matched(delivery: Pick<Delivery, "id" | "endpoint_id" | "fact_id">, at: string): StatedFact {
  const first = { ...delivery, instance_id: delivery.id };
  return { ...named(first, "triggered", at), type: "webhook_triggered", payload: about(delivery) };
}

/** Named after the instance that it came of: made again, a delivery may come out the same way, and that is another fact. */
function named(
  { instance_id, endpoint_id }: Pick<Delivery, "instance_id" | "endpoint_id">,
  what: string,
  occurred_at: string,
): Pick<StatedFact, "fact_id" | "entity" | "occurred_at"> {
  return { fact_id: `${instance_id}/${what}`, entity: `webhook/${endpoint_id}`, occurred_at };
}

function about({ id, endpoint_id, fact_id }: Pick<Delivery, "id" | "endpoint_id" | "fact_id">): {
  endpoint_id: string;
  delivery_id: string;
  fact_id: string;
} {
  return { endpoint_id, delivery_id: id, fact_id };
}
