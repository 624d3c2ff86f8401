import type { Instance } from "../../inspect/instances.ts";

/** The failure of the former run, for the audit's `detail`, because the next run clears it. Without messages of upstreams. */
export function failedBefore({ status, error }: Pick<Instance, "status" | "error">): { failed?: Record<string, unknown> } {
  if (status !== "errored" || error === null) return {};
  const { step, behind, code, attempts, upstream_status } = error;
  const upstream = upstream_status !== undefined && { upstream_status };
  return { failed: { step: step || (behind ?? ""), code, attempts, ...upstream } };
}
