import type { Item } from "../data/api.ts";

/** Marks a paused workflow or queue, with the actor and the reason on hover. */
export function PauseMark({ paused }: Pick<Item<"/v1/workflows">, "paused">) {
  if (!paused) return null;
  const { by, reason, queue, all_tenants } = paused;
  const whose = all_tenants ? ", for all tenants" : "";
  return (
    <strong class="quiet" title={`Paused by ${by}${whose}${queue === null ? "" : ` (queue ${queue})`}: ${reason}`}>
      paused
    </strong>
  );
}
