import { hrefOf, Link } from "../../frame/router.tsx";
import { Moment } from "../../parts/time.tsx";
import { Scope } from "./scope.tsx";
import { type Bulk, counted, listOf, nounOf } from "./words.ts";

export function BulkFacts({ bulk }: { bulk: Bulk }) {
  const {
    verb,
    reason,
    filter,
    undo,
    matched,
    ramp,
    rate_per_second: rate,
    stop_at_error_rate: stop,
    settle_within_seconds: settle,
  } = bulk;
  const now = listOf(bulk);
  return (
    <dl class="pairs">
      <dt>Reason</dt>
      <dd>
        <bdi>{reason}</bdi>
      </dd>
      <dt>Filter</dt>
      <dd>
        <Scope verb={verb} filter={filter} />
        {now && (
          <>
            {" "}
            (<Link to={now}>current matches</Link>)
          </>
        )}
      </dd>
      {undo !== null && (
        <>
          <dt>Effects</dt>
          <dd>{undo ? "undone where possible" : "not undone"}</dd>
        </>
      )}
      <dt>Count before</dt>
      <dd>
        {counted(verb, matched)}, counted <Moment at={bulk.created_at} />
      </dd>
      <dt>Stages</dt>
      <dd>{stagesOf(ramp, matched).join(", ")}</dd>
      <dt>Rate</dt>
      <dd>
        {rate} {nounOf(verb)[1]} per second; a stage waits at most {settle} s for its items to end
      </dd>
      <dt>Stops</dt>
      <dd>{stop >= 1 ? "never" : `if more than ${Math.round(stop * 1000) / 10} % of a stage fails`}</dd>
      <dt>Records</dt>
      <dd>
        <Link to={hrefOf("instances", bulk.instance_id)}>instance</Link>, <Link to={hrefOf("audit", { target: bulk.id })}>audit rows</Link>
      </dd>
    </dl>
  );
}

/** The sizes of a bulk action's stages. The sizes of the ramp come first; the last stage has the remaining items. */
function stagesOf(ramp: readonly number[], matched: number): number[] {
  const sizes: number[] = [];
  let left = matched;
  for (const size of [...ramp, left]) {
    if (left <= 0) break;
    sizes.push(Math.min(size, left));
    left -= size;
  }
  return sizes;
}
