import type { Item } from "../data/api.ts";

/** A mark for a paused workflow or queue. Its tooltip shows the actor and the reason. */
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
