import { waitUntil } from "cloudflare:workers";
import { logLine } from "../../contract/log-line.ts";
import { isHttpAddress, sayUnmeant } from "../../contract/settings.ts";
import { isTraceparent, newSpan, spanIdOf, traceIdOf } from "../../contract/trace.ts";
import { count } from "../metrics/count.ts";

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

/** The environment variables of tracing. */
export interface TraceEnv {
  readonly OTLP_ENDPOINT?: string;
  readonly OTLP_HEADERS?: string;
  readonly OTLP_RATIO?: string | number;
  readonly OTLP_SERVICE?: string;
  readonly OTLP_NAMES?: string;
  readonly MILLRACE_KEY?: string;
}

/** The numbers of OpenTelemetry's span kinds in OTLP. */
export const KIND = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const;

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** An ended span, in a form that does not depend on OTLP. All times are milliseconds since 1970. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** The parent span; undefined for the first span of its trace. */
  readonly parentId: string | undefined;
  readonly name: string;
  readonly kind: (typeof KIND)[keyof typeof KIND];
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  /** The error of the span; undefined for a span without an error. */
  readonly error?: string | undefined;
}

/**
 * True for a trace whose spans are exported: an endpoint is set, the trace is sampled, and its id is within the share (`OTLP_RATIO`). The
 * id is compared as in OpenTelemetry's probability samplers, so that all services select the same traces.
 */
export function isExported(env: TraceEnv, traceparent: unknown): traceparent is string {
  const { OTLP_ENDPOINT, OTLP_RATIO = 1 } = env;
  if (!OTLP_ENDPOINT || !isTraceparent(traceparent) || (Number.parseInt(traceparent.slice(53, 55), 16) & 1) === 0) return false;
  const ratio = OTLP_RATIO === "" ? 1 : Number(OTLP_RATIO);
  if (!(ratio >= 0 && ratio <= 1)) {
    sayUnmeant(
      env,
      `OTLP_RATIO is ${JSON.stringify(OTLP_RATIO)}: set a share from 0 to 1, such as 0.1. No trace is exported until OTLP_RATIO is valid.`,
    );
    return false;
  }
  // W3C makes the last 14 digits of a trace id random. The code uses the upper 13 of these digits, because a JavaScript number represents
  // 13 hexadecimal digits exactly.
  return !(Number.parseInt(traceIdOf(traceparent).slice(18, 31), 16) / 16 ** 13 < 1 - ratio);
}

/** The traceparent of a new span in the trace of the given traceparent. */
export function childOf(traceparent: string, spanId = newSpan()): string {
  return `00-${traceIdOf(traceparent)}-${spanId}-${traceparent.slice(53, 55)}`;
}

/** The ids of a span, from the span's traceparent and the traceparent of the parent span. */
export function idsOf(own: string, parent: string | undefined): Pick<Span, "traceId" | "spanId" | "parentId"> {
  return { traceId: traceIdOf(own), spanId: spanIdOf(own), parentId: parent && spanIdOf(parent) };
}
