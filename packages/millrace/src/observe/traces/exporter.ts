import { waitUntil } from "cloudflare:workers";
import { logLine } from "../../contract/log-line.ts";
import { isHttpAddress } from "../../contract/settings.ts";
import { count } from "../metrics/count.ts";
import type { Attributes, Span, TraceEnv } from "./span.ts";

/** Maximum number of spans that an isolate holds. Further spans are dropped and counted. */
const MOST_HELD = 2048;
/** Maximum number of spans in one request. */
const MOST_SENT = 512;
/** How long an isolate gathers spans before sending, in milliseconds. */
const GATHER_MS = 200;
/** Time limit for a collector's response, in milliseconds. */
const ANSWER_MS = 5000;
/** Pause after a collector's failure, in milliseconds. Spans are dropped during the pause. */
const PAUSE_MS = 30_000;
/** A sender that still gathers spans after this time, in milliseconds, was lost with its invocation, and is replaced. */
const GONE_MS = GATHER_MS * 2;

/** Spans of this isolate that are not sent yet. */
let held: Span[] = [];
let lost = 0;
let gatheringSince = 0;
/**
 * The endpoint whose request failed last, and the time when its pause ends. An endpoint that differs from this endpoint is tried at once.
 */
let paused = { endpoint: "", until: 0 };

/** The original `fetch`, because in development the engine replaces `fetch` by a function that logs a warning outside steps. */
const { fetch } = globalThis;

/**
 * Sends many spans per request, after the work that the spans describe. The function never throws and is never awaited. Spans that the
 * collector does not accept are lost.
 */
export function exportSpans(env: TraceEnv, ...spans: readonly Span[]): void {
  const now = Date.now();
  if ((now < paused.until && env.OTLP_ENDPOINT === paused.endpoint) || held.length + spans.length > MOST_HELD) lost += spans.length;
  else held.push(...spans);
  if (held.length === 0 || now - gatheringSince < GONE_MS) return;
  try {
    gatheringSince = now;
    waitUntil(sendAll(env));
  } catch {
    gatheringSince = 0;
  }
}

async function sendAll(env: TraceEnv): Promise<void> {
  await scheduler.wait(GATHER_MS);
  gatheringSince = 0;
  while (held.length > 0) await send(env, held.splice(0, MOST_SENT));
}

async function send(env: TraceEnv, spans: readonly Span[]): Promise<void> {
  const refused = await post(env, asOtlp(env, spans)).catch(unanswered);
  if (refused !== undefined) {
    paused = { endpoint: env.OTLP_ENDPOINT ?? "", until: Date.now() + PAUSE_MS };
    lost += spans.length + held.length;
    held = [];
  }
  if (lost > 0) logLine("warn", { log: "spans_lost", spans: lost, error: refused });
  count(env, "spans_lost_total", {}, lost);
  lost = 0;
}

/**
 * Describes why a collector did not respond. The description omits the runtime's message, which may contain the URL and a key in the URL.
 */
function unanswered(error: unknown): string {
  const isLate = error instanceof Error && error.name === "TimeoutError";
  return isLate ? `The collector did not respond within ${ANSWER_MS / 1000} s.` : "The collector cannot be reached.";
}

/**
 * Returns why a collector refused a request; undefined if the collector accepted the request. The response body is not read, because it may
 * contain anything.
 */
async function post({ OTLP_ENDPOINT = "", OTLP_HEADERS = "" }: TraceEnv, body: string): Promise<string | undefined> {
  const headers = headersIn(OTLP_HEADERS);
  if (headers === undefined) return "OTLP_HEADERS must be a list such as name=value,name=value.";
  if (!isHttpAddress(OTLP_ENDPOINT)) return "OTLP_ENDPOINT must begin with http:// or https://.";
  const response = await fetch(OTLP_ENDPOINT, {
    ...{ method: "POST", body, headers: { ...headers, "content-type": "application/json" } },
    // A followed redirect would send the headers to another host.
    ...{ redirect: "manual", signal: AbortSignal.timeout(ANSWER_MS) },
  });
  await response.body?.cancel();
  return response.ok ? undefined : `The collector responded ${response.status}.`;
}

/** Parses headers in OpenTelemetry's notation. Returns undefined for an invalid string. */
function headersIn(said: string): Record<string, string> | undefined {
  try {
    const pairs = said.split(",").filter((pair) => pair.trim() !== "");
    const named = pairs.map((pair) => [
      pair.slice(0, pair.indexOf("=")).trim(),
      decodeURIComponent(pair.slice(pair.indexOf("=") + 1).trim()),
    ]);
    return pairs.every((pair) => pair.includes("=")) ? Object.fromEntries(new Headers(named as [string, string][])) : undefined;
  } catch {
    return undefined;
  }
}

/** The default service name in exported spans. */
const DEFAULT_SERVICE = "millrace";

/** The code of the span status `unset`. Some collectors require that each span has a status. */
const UNSET = 0;
const ERROR = 2;

/** Spans as the body of an OTLP/HTTP request: `ExportTraceServiceRequest` in the JSON mapping of OpenTelemetry's protocol. */
function asOtlp({ OTLP_SERVICE }: TraceEnv, spans: readonly Span[]): string {
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
