import { type Commit, type Draft, texts } from "millrace";
import type { StatedFact } from "../../messages/fact.ts";
import { FactObserved } from "../../messages/facts.ts";
import { WEBHOOK_TEST } from "../../messages/webhooks.ts";
import { type Attempt, type Delivery, logAttempt, settleDelivery } from "./deliveries.ts";
import { disableGone } from "./endpoints.ts";

/** The writes for a delivery that the receiver has accepted. */
export function wasSent(delivery: Delivery, attempt: Attempt): Commit<never> {
  const sent = { ...about(delivery), status: attempt.status ?? 0, attempts: attempt.attempt };
  return {
    statements: [logAttempt(delivery.tenant_id, delivery.id, attempt), settleDelivery(delivery, "sent")],
    emit: facts(delivery, { ...named(delivery, "sent", attempt.at), type: "webhook_sent", payload: sent }),
  };
}

/**
 * Returns the writes for a delivery to a receiver that wants no further requests. The endpoint is disabled, unless it was changed since the
 * request.
 */
export function wasGone(delivery: Delivery, attempt: Attempt): Commit<never> {
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

/** Returns the writes for a delivery that was not sent, because the endpoint is deleted or was disabled for too long. */
export function wasSkipped(delivery: Delivery, why: string): Commit<never> {
  return {
    statements: [settleDelivery(delivery, "skipped")],
    emit: failed(delivery, "skipped", null, why, new Date().toISOString()),
  };
}

/** Returns the writes for a delivery whose attempts have all failed, so that an operator must decide. */
export function wasGivenUp(delivery: Delivery, status: number | null, reason: string): Commit<never> {
  return {
    statements: [settleDelivery(delivery, "failed")],
    emit: failed(delivery, "failed", status, texts.beginning(reason, 1000), new Date().toISOString()),
  };
}

/**
 * Returns the fact of a failed delivery. The fact's name contains the kind of failure, so that another kind of failure after an operator's
 * retry gives another fact.
 */
function failed(delivery: Delivery, how: "failed" | "gone" | "skipped", status: number | null, reason: string, at: string): Draft[] {
  const payload = { ...about(delivery), status, reason };
  return facts(delivery, { ...named(delivery, how, at), type: "webhook_failed", payload });
}

/** Returns the message that appends the outcome of a delivery to the endpoint's ledger, or no message for a test delivery. */
function facts(delivery: Delivery, outcome: StatedFact): Draft[] {
  return delivery.fact_type === WEBHOOK_TEST ? [] : [FactObserved.from(outcome)];
}

/**
 * Returns the fact which states that another fact has matched an endpoint. This fact is recorded before the outcome of the delivery. `at`
 * is a time in ISO 8601.
 */
export function matched(delivery: Pick<Delivery, "id" | "endpoint_id" | "fact_id">, at: string): StatedFact {
  const first = { ...delivery, instance_id: delivery.id };
  return { ...named(first, "triggered", at), type: "webhook_triggered", payload: about(delivery) };
}

/** The fact's name contains the id of the delivery's instance, because a redelivery with the same outcome is another fact. */
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
