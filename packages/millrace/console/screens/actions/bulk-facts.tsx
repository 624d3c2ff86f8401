import { hrefOf, Link } from "../../frame/router.tsx";
import { Moment } from "../../parts/time.tsx";
import { Scope } from "./scope.tsx";
import { type Bulk, counted, listOf, nounOf } from "./words.ts";

/** Why it was begun, over what, and how it goes about it. */
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
      <dt>Why</dt>
      <dd>
        <bdi>{reason}</bdi>
      </dd>
      <dt>Which</dt>
      <dd>
        <Scope verb={verb} filter={filter} />
        {now && (
          <>
            {" "}
            (<Link to={now}>which are so now</Link>)
          </>
        )}
      </dd>
      {undo !== null && (
        <>
          <dt>What they did</dt>
          <dd>{undo ? "is taken back, where it can be" : "stands: nothing of it is taken back"}</dd>
        </>
      )}
      <dt>Count before</dt>
      <dd>
        {counted(verb, matched)}, written down <Moment at={bulk.created_at} />
      </dd>
      <dt>Stages</dt>
      <dd>{stagesOf(ramp, matched).join(", ")}</dd>
      <dt>Rate</dt>
      <dd>
        {rate} {nounOf(verb)[1]} a second; a stage waits {settle} s at most for the ends of what was begun
      </dd>
      <dt>Stops itself</dt>
      <dd>{stop >= 1 ? "never" : `where more than ${Math.round(stop * 1000) / 10} % of a stage fail`}</dd>
      <dt>Runs as</dt>
      <dd>
        <Link to={hrefOf("instances", bulk.instance_id)}>its instance</Link>;{" "}
        <Link to={hrefOf("audit", { target: bulk.id })}>its rows of the audit</Link>
      </dd>
    </dl>
  );
}

/** The sizes of its stages: those of the ramp as far as they are filled, the rest behind them. */
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
