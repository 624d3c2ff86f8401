import { inject } from "vitest";
import { until } from "../until.ts";
import type { CollectedRequest, CollectedSpan } from "./start.ts";

/** The env variables that tracing reads, as a test sets them. */
interface Traced {
  OTLP_ENDPOINT?: string;
  OTLP_HEADERS?: string;
  OTLP_RATIO?: string;
  OTLP_NAMES?: string;
}

/** Sends this env's spans to the tests' collector. Returns the function that stops that. */
export function collect(env: object, more: Traced = {}): () => void {
  const traced = env as Traced;
  Object.assign(traced, { OTLP_ENDPOINT: `${inject("collectorUrl")}/v1/traces` }, more);
  return () => {
    delete traced.OTLP_ENDPOINT;
    delete traced.OTLP_HEADERS;
    delete traced.OTLP_RATIO;
    delete traced.OTLP_NAMES;
  };
}

/** The collector's own record of the requests that contained this trace. */
export async function requestsOf(traceId: string): Promise<CollectedRequest[]> {
  const all = (await (await fetch(`${inject("collectorUrl")}/requests`)).json()) as CollectedRequest[];
  return all.filter(({ spans }) => spans.some((span) => span.traceId === traceId));
}

/** The spans of a trace, once these spans are among them. */
export async function spansOf(traceId: string, ...names: string[]): Promise<CollectedSpan[]> {
  return until(
    async () => (await requestsOf(traceId)).flatMap(({ spans }) => spans).filter((span) => span.traceId === traceId),
    (spans) => names.every((name) => spans.some((span) => span.name === name)),
  );
}

/** A trace as a tree of names, each with its children, in the order of their start; `lost`: spans without a known parent. */
export function treeOf(spans: readonly CollectedSpan[], parentId?: string): string[] {
  const inOrder = spans.toSorted((one, other) => Number(BigInt(one.startTimeUnixNano) - BigInt(other.startTimeUnixNano)));
  const known = new Set(spans.map(({ spanId }) => spanId));
  const isHere = ({ parentSpanId }: CollectedSpan) =>
    parentId === undefined ? parentSpanId === undefined || !known.has(parentSpanId) : parentSpanId === parentId;
  return inOrder.filter(isHere).flatMap((span) => [span.name, ...treeOf(spans, span.spanId).map((line) => `  ${line}`)]);
}

/** The fields of a span. */
export function saidBy({ attributes }: CollectedSpan): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.boolValue ?? Number(value.intValue ?? value.doubleValue)]),
  );
}
