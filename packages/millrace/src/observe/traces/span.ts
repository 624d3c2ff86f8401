import { sayUnmeant } from "../../contract/settings.ts";
import { isTraceparent, newSpan, spanIdOf, traceIdOf } from "../../contract/trace.ts";

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
