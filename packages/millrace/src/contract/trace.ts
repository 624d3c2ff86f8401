import { AsyncLocalStorage } from "node:async_hooks";

/** The W3C trace context of a message or call. */
export interface TraceContext {
  traceparent: string;
  /** W3C `tracestate`: data of tracing systems, passed on unchanged. */
  tracestate?: string | undefined;
}

/** A trace context from outside, not validated. */
export type SaidTrace = { [Field in keyof TraceContext]?: string | null | undefined };

/** The fields of a traceparent of version 00, with which every later version starts. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?$/;
/** The flags of a traceparent that are passed on, `sampled` and `random trace id`: W3C requires all unknown flags to be zero. */
const KNOWN_FLAGS = 0b11;

const MAX_MEMBERS = 32;
/** Minimum characters of a tracestate that W3C requires to be passed on. */
const MAX_STATE_CHARACTERS = 512;
/** Longer members of a tracestate are removed first if the tracestate is too long. */
const LONG_MEMBER_CHARACTERS = 128;
const MEMBER = /^(?:[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/** A trace span in progress, and the env of the Worker that exports it. */
export interface SpanUnderWay {
  readonly traceparent: string;
  readonly env: object;
}

const underWay = new AsyncLocalStorage<SpanUnderWay>();

/**
 * Runs work as part of a span: the next messages and calls of the work's trace are children of that span. With an undefined span, the work
 * runs outside any span.
 */
export function duringSpan<T>(span: SpanUnderWay | undefined, work: () => T): T {
  return span === undefined ? work() : underWay.run(span, work);
}

/** The trace span in progress; undefined if no span is exported. */
export function spanUnderWay(): SpanUnderWay | undefined {
  return underWay.getStore();
}

export function newTrace(): string {
  return `00-${hexUuid()}-${newSpan()}-01`;
}

/**
 * The next hop of a trace: same trace id, flags and state, with the id of the span in progress, or of a new span if no span is in progress.
 * A later version of a traceparent is parsed by its first fields, as W3C Trace Context requires. An invalid traceparent, for example with
 * an id of zeros, starts a new trace without a state.
 */
export function nextHop({ traceparent, tracestate }: SaidTrace): TraceContext {
  const [, version, traceId, flags = "", more] = TRACEPARENT.exec(traceparent?.trim() ?? "") ?? [];
  if (traceId === undefined || (version === "00" && more !== undefined)) return { traceparent: newTrace() };
  const known = (Number.parseInt(flags, 16) & KNOWN_FLAGS).toString(16).padStart(2, "0");
  const state = readState(tracestate);
  const now = underWay.getStore()?.traceparent;
  const span = now !== undefined && traceIdOf(now) === traceId ? spanIdOf(now) : newSpan();
  return { traceparent: `00-${traceId}-${span}-${known}`, ...(state && { tracestate: state }) };
}

/** The headers of an outgoing call: the next hop of this trace. Returns no headers without a trace. */
export function traceHeaders(trace: TraceContext | undefined): Record<string, string> {
  return trace ? { ...nextHop(trace) } : {};
}

/** The trace id of a traceparent: 32 hex characters. */
export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}

/** The span id of a traceparent: 16 hex characters. */
export function spanIdOf(traceparent: string): string {
  return traceparent.slice(36, 52);
}

export function isTraceparent(said: unknown): said is string {
  return typeof said === "string" && TRACEPARENT.test(said);
}

/** A tracestate to pass on, cut to the minimum that W3C requires; undefined for a missing or malformed tracestate. */
function readState(said: string | null | undefined): string | undefined {
  const members = (said ?? "")
    .split(",")
    .map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ""))
    .filter((member) => member !== "");
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf("="))));
  if (members.length > MAX_MEMBERS || keys.size < members.length || !members.every((member) => MEMBER.test(member))) return undefined;
  while (members.join(",").length > MAX_STATE_CHARACTERS) {
    const long = members.findLastIndex((member) => member.length > LONG_MEMBER_CHARACTERS);
    members.splice(long, 1);
  }
  return members.join(",") || undefined;
}

export function newSpan(): string {
  return hexUuid().slice(16);
}

/** 32 hex characters with 122 random bits, of which W3C requires the last 56. A UUID takes a fifth of the time of random bytes. */
function hexUuid(): string {
  return crypto.randomUUID().replaceAll("-", "");
}
