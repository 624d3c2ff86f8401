import { laneIn } from "../../contract/queue.ts";
import type { SpanUnderWay } from "../../contract/trace.ts";
import type { Delivery } from "../delivery.ts";
import { wordsOf } from "../words.ts";
import { exportSpans } from "./exporter.ts";
import { isPlain, messageAttributes, systemOf } from "./message.ts";
import { childOf, idsOf, KIND, type Span } from "./span.ts";

/**
 * Exports the spans of a delivery as children of the sender's span. The spans are the wait in the queue (first delivery only) and the
 * processing. The processing counts as failed if the message is retried or captured.
 */
export function traceDelivery(span: SpanUnderWay, delivery: Delivery, takenAt: number): void {
  const { queue, message, attempt, outcome, waitedMs, deadLetter, code, error, upstreamStatus, hide } = delivery;
  const body = message.body as { traceparent: string };
  const destination = laneIn(queue) ?? queue;
  const attributes = {
    "messaging.system": systemOf(queue),
    "messaging.destination.name": destination,
    "messaging.message.id": message.id,
    ...messageAttributes(span.env, body, hide),
  };
  const failed = FAILED.has(outcome);
  const process: Span = {
    ...idsOf(span.traceparent, body.traceparent),
    ...{ name: `process ${destination}`, kind: KIND.consumer, startedAt: takenAt, endedAt: Date.now() },
    attributes: {
      ...{ ...attributes, "messaging.operation.name": "process", "messaging.operation.type": "process", "faas.trigger": "pubsub" },
      ...{ "millrace.attempt": attempt, "millrace.outcome": outcome, "millrace.waited_ms": waitedMs, "millrace.dead_letter": deadLetter },
      "error.type": failed ? (code ?? outcome) : undefined,
    },
    error: failed ? (error && isPlain(span.env) && wordsOf(span.env, error, upstreamStatus)) || (code ?? outcome) : undefined,
  };
  const waited = attempt === 1 ? waitedMs : undefined;
  const wait = (ms: number): Span => ({
    ...idsOf(childOf(span.traceparent), body.traceparent),
    ...{ name: `wait ${destination}`, kind: KIND.internal, startedAt: takenAt - ms, endedAt: takenAt },
    attributes,
  });
  exportSpans(span.env, ...(waited === undefined ? [] : [wait(waited)]), process);
}

const FAILED: ReadonlySet<Delivery["outcome"]> = new Set(["retried", "captured"]);
