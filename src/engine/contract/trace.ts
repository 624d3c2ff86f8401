import { randomBytes } from "node:crypto";

const TRACEPARENT = /^00-([0-9a-f]{32})-[0-9a-f]{16}-([0-9a-f]{2})$/;

/** A new W3C trace context, sampled. */
export function newTrace(): string {
  return `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`;
}

/** The next hop of a trace: same trace id and flags, a span of its own. Anything that is not a traceparent starts a new trace, as the W3C text asks. */
export function nextHop(traceparent: string | null | undefined): string {
  const [, traceId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  return traceId ? `00-${traceId}-${randomBytes(8).toString("hex")}-${flags}` : newTrace();
}

/** The trace that a traceparent belongs to: 32 hex characters. */
export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}
