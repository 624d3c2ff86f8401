import type { Attributes, Span, TraceEnv } from "./span.ts";

/** The default service name in exported spans. */
const DEFAULT_SERVICE = "millrace";

/** The code of the span status `unset`. Some collectors require that each span has a status. */
const UNSET = 0;
const ERROR = 2;

/** Spans as the body of an OTLP/HTTP request: `ExportTraceServiceRequest` in the JSON mapping of OpenTelemetry's protocol. */
export function asOtlp({ OTLP_SERVICE }: TraceEnv, spans: readonly Span[]): string {
  const resource = {
    "service.name": OTLP_SERVICE || DEFAULT_SERVICE,
    "cloud.provider": "cloudflare",
    "cloud.platform": "cloudflare.workers",
  };
  return JSON.stringify({
    resourceSpans: [
      { resource: { attributes: asAttributes(resource) }, scopeSpans: [{ scope: { name: "millrace" }, spans: spans.map(asSpan) }] },
    ],
  });
}

function asSpan({ traceId, spanId, parentId, name, kind, startedAt, endedAt, attributes, error }: Span): object {
  return {
    ...{ traceId, spanId, ...(parentId && { parentSpanId: parentId }), name, kind },
    startTimeUnixNano: nanoseconds(startedAt),
    endTimeUnixNano: nanoseconds(Math.max(startedAt, endedAt)),
    attributes: asAttributes(attributes),
    status: error === undefined ? { code: UNSET } : { code: ERROR, message: error },
  };
}

/** A time in nanoseconds, as a string, because OTLP represents 64-bit numbers as strings in JSON. */
function nanoseconds(ms: number): string {
  return `${Math.max(0, Math.round(ms))}000000`;
}

function asAttributes(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) => (value === undefined ? [] : [{ key, value: asValue(value) }]));
}

function asValue(value: string | number | boolean): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
