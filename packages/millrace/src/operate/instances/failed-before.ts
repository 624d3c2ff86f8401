import type { Instance } from "../../inspect/instances.ts";

/** What the run failed of that an action ends or follows, as the audit's `detail` keeps it: the next run forgets it. No words of upstreams. */
export function failedBefore({ status, error }: Pick<Instance, "status" | "error">): { failed?: Record<string, unknown> } {
  if (status !== "errored" || error === null) return {};
  const { step, behind, code, attempts, upstreamStatus } = error;
  const upstream = upstreamStatus !== undefined && { upstream_status: upstreamStatus };
  return { failed: { step: step || (behind ?? ""), code, attempts, ...upstream } };
}
