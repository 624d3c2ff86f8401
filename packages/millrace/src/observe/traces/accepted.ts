import type { Envelope } from "../../contract/envelope.ts";
import type { Hide } from "../../contract/hide.ts";
import { laneIn } from "../../contract/queue.ts";
import { isTraceparent, type SaidTrace, spanUnderWay, traceIdOf } from "../../contract/trace.ts";
import { exportSpans } from "./exporter.ts";
import { messageAttributes, systemOf } from "./message.ts";
import { idsOf, isExported, KIND, type TraceEnv } from "./span.ts";

/** A message accepted at an endpoint: the request, the outcome, and the start of the acceptance. */
interface Accepted {
  readonly request: SaidTrace;
  readonly envelope: Envelope;
  readonly queue: string | null;
  readonly outcome: "accepted" | "duplicate";
  readonly startedAt: number;
  /** Redacts the payload's sensitive values where the message's key, subject or source repeats them. */
  readonly hide: Hide;
}

/**
 * The span of a message's acceptance: the first span of its trace, or a child of the caller's span. If a current span already covers the
 * acceptance, no span is created.
 */
export function traceAccepted(env: TraceEnv, { request, envelope, queue, outcome, startedAt, hide }: Accepted): void {
  const own = envelope.traceparent;
  if (!isExported(env, own) || spanUnderWay()?.traceparent.startsWith(own.slice(0, 52))) return;
  const asker = request.traceparent?.trim();
  const parent = isTraceparent(asker) && traceIdOf(asker) === traceIdOf(own) ? asker : undefined;
  const name = laneIn(queue ?? "") ?? queue ?? envelope.message_type;
  exportSpans(env, {
    ...idsOf(own, parent),
    ...{ name: `accept ${name}`, kind: KIND.producer, endedAt: Date.now() },
    // The message is created before its row is committed, and the span of the message's wait starts at the creation.
    startedAt: Math.min(startedAt, Date.parse(envelope.created_at)),
    attributes: {
      ...{ "messaging.system": systemOf(queue ?? ""), "messaging.operation.name": "accept", "messaging.operation.type": "send" },
      ...{ "messaging.destination.name": name, "millrace.outcome": outcome },
      ...messageAttributes(env, envelope, hide),
    },
  });
}
