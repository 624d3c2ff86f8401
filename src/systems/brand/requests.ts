import { type Accepted, instanceId } from "millrace";
import { ResearchRequested } from "../../messages/research.ts";
import type { Decided } from "./decide.ts";
import type { KeywordRequest } from "./state.ts";

/** A cycle that was asked for. */
export interface Cycle {
  /** The instance that plans it: a repeated request gets the same result. */
  instance_id: string;
  tenant_id: string;
  brand: string;
  cycle: string;
  keywords: readonly string[];
  correlation_id: string;
  traceparent: string;
  tracestate?: string | undefined;
}

/** A single requested keyword, and the instance that would research it. */
export type AskedKeyword = Omit<Cycle, "keywords"> & { keyword: string; causation_id: string };

/** The request for one keyword of a cycle. `workflow`: the one that researches. */
export function requestOf({ instance_id, tenant_id, brand, cycle, ...job }: Cycle, keyword: string, workflow: string): KeywordRequest {
  const id = instanceId(tenant_id, workflow, ResearchRequested.key?.({ brand, cycle, keyword }) ?? "");
  return askedRequest({ ...job, instance_id: id, tenant_id, brand, cycle, keyword, causation_id: `${instance_id}/decide` });
}

/** The request for an instance that was started outside a cycle. */
export function askedRequest({
  instance_id,
  keyword,
  cycle,
  correlation_id,
  causation_id,
  traceparent,
  tracestate,
}: AskedKeyword): KeywordRequest {
  return { instance_id, spelled: keyword, cycle, reuse: null, correlation_id, causation_id, traceparent, tracestate: tracestate ?? null };
}

/** The command of a request. */
export function commandOf(brand: string, { spelled, cycle, reuse, correlation_id, causation_id, traceparent, tracestate }: KeywordRequest) {
  const payload = { brand, keyword: spelled, cycle, ...(reuse !== null && { reuse }) };
  return {
    command: ResearchRequested,
    payload,
    correlationId: correlation_id,
    causationId: causation_id,
    traceparent,
    tracestate: tracestate ?? undefined,
  };
}

/** Why an existing command does not belong to this job; undefined if it does. */
export function askedElsewhere(answer: Accepted | undefined, correlationId: string): string | undefined {
  if (!answer?.replayed || answer.correlationId === correlationId) return undefined;
  return `Its research was requested in the same cycle by the job “${answer.correlationId}”. Request it in a new cycle.`;
}

export function refusedAsRepeated(cycle: string, instance_id: string): Decided {
  const reason = `The cycle “${cycle}” has requested it before. Retry the failed instance, or request it in a new cycle.`;
  return { verdict: "refused", reason, grounds: { instance_id } };
}
