import { AsyncLocalStorage } from "node:async_hooks";
import { randomBytes } from "node:crypto";

/** Where a message, or a call, stands in a W3C trace: `traceparent`, and what tracing systems pass to each other beside it. */
export interface TraceContext {
  traceparent: string;
  /** W3C `tracestate`: the systems' own, handed on as it came. */
  tracestate?: string | undefined;
}

/** What somebody said of a trace, for what that is worth. */
export type SaidTrace = { [Field in keyof TraceContext]?: string | null | undefined };

/** The fields of version 00, with which every later version begins. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?$/;
/** Sampled, and random trace id: W3C has the others set to zero by whoever does not know them. */
const KNOWN_FLAGS = 0b11;

const MAX_MEMBERS = 32;
/** W3C asks for so much to be handed on. */
const MAX_STATE_CHARACTERS = 512;
/** Of a list that is too long, members beyond this go first. */
const LONG_MEMBER_CHARACTERS = 128;
const MEMBER = /^(?:[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/** A span that is under way, and the env of the Worker that exports it. */
export interface SpanUnderWay {
  readonly traceparent: string;
  readonly env: object;
}

const underWay = new AsyncLocalStorage<SpanUnderWay>();

/** Does work as part of a span: the next hops of its trace, messages and calls, are that span's children. Undefined: of none. */
export function duringSpan<T>(span: SpanUnderWay | undefined, work: () => T): T {
  return span === undefined ? work() : underWay.run(span, work);
}

/** The span that the present code is part of; undefined where none is exported. */
export function spanUnderWay(): SpanUnderWay | undefined {
  return underWay.getStore();
}

/** A new W3C trace context, sampled. */
export function newTrace(): string {
  return `00-${randomBytes(16).toString("hex")}-${newSpan()}-01`;
}

/**
 * The next hop of a trace: same trace id, flags and state, and the span under way, or else one of its own. Read as W3C Trace Context says:
 * a later version by its first fields, and anything that is no traceparent (also one of zeros) starts a new trace, whose state is nobody's.
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

/** The headers of a call to the outside: the next hop of this trace. None where there is no trace to go on with. */
export function traceHeaders(trace: TraceContext | undefined): Record<string, string> {
  return trace ? { ...nextHop(trace) } : {};
}

/** The trace that a traceparent belongs to: 32 hex characters. */
export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}

/** The span that a traceparent names: 16 hex characters. */
export function spanIdOf(traceparent: string): string {
  return traceparent.slice(36, 52);
}

/** True for a traceparent whose fields can be read. */
export function isTraceparent(said: unknown): said is string {
  return typeof said === "string" && TRACEPARENT.test(said);
}

/**
 * A tracestate that can be handed on, cut to what W3C asks for; undefined for none, and for one that is malformed: then nobody knows whose
 * it is.
 */
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

/** A new span id. */
export function newSpan(): string {
  return randomBytes(8).toString("hex");
}
