import { type Accepted, ids } from "millrace";
import type { Priority } from "../../messages/brand.ts";
import { ResearchRequested } from "../../messages/research.ts";
import type { Decided } from "./decide.ts";
import type { KeywordRequest } from "./state.ts";

/** A cycle that a command requests. */
export interface Cycle {
  /** The instance that plans the cycle. If this instance requests the cycle again, the agent returns the same result. */
  instance_id: string;
  tenant_id: string;
  brand: string;
  cycle: string;
  keywords: readonly string[];
  priority: Priority;
  correlation_id: string;
  traceparent: string;
  tracestate?: string | undefined;
}

/** A keyword that is requested outside a cycle, and the instance that would research it. */
export type AskedKeyword = Omit<Cycle, "keywords" | "priority"> & { keyword: string; causation_id: string };

/** Creates the request for one keyword of a cycle. `workflow` is the name of the workflow that researches a keyword. */
export function requestOf(
  { instance_id, tenant_id, brand, cycle, priority, ...job }: Cycle,
  keyword: string,
  workflow: string,
): KeywordRequest {
  const id = ids.instance(tenant_id, workflow, ResearchRequested.key?.({ brand, cycle, keyword }) ?? "");
  const request = askedRequest({ ...job, instance_id: id, tenant_id, brand, cycle, keyword, causation_id: `${instance_id}/decide` });
  return { ...request, priority };
}

/** Creates the request for an instance that was started outside a cycle. */
export function askedRequest({
  instance_id,
  keyword,
  cycle,
  correlation_id,
  causation_id,
  traceparent,
  tracestate,
}: AskedKeyword): KeywordRequest {
  const job = { correlation_id, causation_id, traceparent, tracestate: tracestate ?? null };
  return { instance_id, spelled: keyword, cycle, reuse: null, priority: "normal", ...job };
}

/**
 * Creates the command of a request. A command with high priority starts before the queued commands, unless the brand's rate delays this
 * command.
 */
export function commandOf(brand: string, request: KeywordRequest, delaySeconds: number) {
  const { spelled, cycle, reuse, priority, correlation_id, causation_id, traceparent, tracestate } = request;
  const payload = { brand, keyword: spelled, cycle, ...(reuse !== null && { reuse }) };
  return {
    command: ResearchRequested,
    payload,
    delaySeconds,
    priority: priority === "high" && delaySeconds > 0 ? "normal" : priority,
    correlationId: correlation_id,
    causationId: causation_id,
    traceparent,
    tracestate: tracestate ?? undefined,
  };
}

/** Returns the reason why an existing command does not belong to this job; undefined if the command belongs to this job. */
export function askedElsewhere(answer: Accepted | undefined, correlationId: string): string | undefined {
  if (!answer?.replayed || answer.correlationId === correlationId) return undefined;
  return `The keyword's research was requested in the same cycle by the job “${answer.correlationId}”. Request it in a new cycle.`;
}

export function refusedAsRepeated(cycle: string, instance_id: string): Decided {
  const reason = `The cycle “${cycle}” has requested it before. Retry the failed instance, or request it in a new cycle.`;
  return { verdict: "refused", reason, grounds: { instance_id } };
}
