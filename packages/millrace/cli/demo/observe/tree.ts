/** A span as a collector is sent it, by the JSON mapping of OpenTelemetry's protocol. */
export interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: { stringValue?: string } }[];
  status?: { code?: number };
}

/** A span where it stands in its tree: 0 is the root. */
export interface Branch {
  span: Span;
  depth: number;
}

/** The spans of a trace as trees, each parent before its children, and those in the order in which they began. */
export function treeOf(spans: readonly Span[]): Branch[] {
  const known = new Set(spans.map(({ spanId }) => spanId));
  const below = Map.groupBy(spans.toSorted(byBeginning), ({ parentSpanId = "" }) => (known.has(parentSpanId) ? parentSpanId : ""));
  const branch = (parent: string, depth: number): Branch[] =>
    (below.get(parent) ?? []).flatMap((span) => [{ span, depth }, ...branch(span.spanId, depth + 1)]);
  return branch("", 0);
}

function byBeginning(one: Span, other: Span): number {
  return Number(BigInt(one.startTimeUnixNano) - BigInt(other.startTimeUnixNano));
}

/** What a span says of itself under a name; undefined where it says nothing. */
export function saidOf({ attributes }: Span, name: string): string | undefined {
  return attributes.find(({ key }) => key === name)?.value.stringValue;
}

/** When a span began and how long it took, in milliseconds. */
export function timesOf({ startTimeUnixNano, endTimeUnixNano }: Span): { at: number; ms: number } {
  const at = Number(BigInt(startTimeUnixNano) / 1000n) / 1000;
  return { at, ms: Number(BigInt(endTimeUnixNano) / 1000n) / 1000 - at };
}

/** A time within the whole of a trace as a bar of a fixed width: what is short is seen all the same. */
export function barOf({ at, ms }: { at: number; ms: number }, whole: { at: number; ms: number }, width: number): string {
  const scale = width / Math.max(whole.ms, 1);
  const from = Math.min(width - 1, Math.floor((at - whole.at) * scale));
  const long = Math.min(width - from, Math.max(1, Math.round(ms * scale)));
  return `${" ".repeat(from)}${(ms * scale < 0.5 ? "▏" : "█").repeat(long)}`.padEnd(width);
}
