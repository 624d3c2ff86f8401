import type { Item } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Status, standing } from "../../parts/status.tsx";
import { Ago, clockTime, duration } from "../../parts/time.tsx";
import { MOST_READ } from "./needs.ts";

type Instance = Item<"/v1/instances">;

const MINUTES = 60;
const MINUTE_MS = 60_000;

/** Accepted instances in each of the last 60 minutes, oldest first. */
function byMinute(instances: readonly Instance[], now: number): number[] {
  const counts = new Array<number>(MINUTES).fill(0);
  for (const { accepted_at } of instances) {
    const ago = Math.floor((now - Date.parse(accepted_at)) / MINUTE_MS);
    const at = MINUTES - 1 - Math.max(0, ago);
    if (at >= 0) counts[at] = (counts[at] ?? 0) + 1;
  }
  return counts;
}

function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export function LastHour({ instances }: { instances: readonly Instance[] }) {
  if (instances.length === 0) return <Nothing />;
  const now = timeNow();
  const counts = byMinute(instances, now);
  // In a busy hour only the newest instances are read, so counts of earlier minutes are unknown.
  const from = instances.length < MOST_READ ? undefined : (instances.at(-1)?.accepted_at ?? "");
  const first = from === undefined ? 0 : Math.max(0, MINUTES - 1 - Math.floor((now - Date.parse(from)) / MINUTE_MS));
  const most = Math.max(1, ...counts);
  const took = instances
    .filter(({ status }) => status === "complete")
    .map(({ accepted_at, updated_at }) => Date.parse(updated_at) - Date.parse(accepted_at))
    .toSorted((one, other) => one - other);
  const [p50, p95] = [quantile(took, 0.5), quantile(took, 0.95)];
  const words = Object.entries(Object.groupBy(instances, standing)).toSorted(([, one = []], [, other = []]) => other.length - one.length);
  return (
    <>
      <svg
        class="minutes"
        viewBox="0 0 240 48"
        preserveAspectRatio="none"
        role="img"
        aria-label={`Accepted by minute, ${most} at most${from ? `, from ${clockTime(from)} on` : ""}; see also the counts below`}
      >
        {counts.map((count, minute) => {
          if (minute < first) return null;
          const height = count === 0 ? 1 : Math.max(3, (count / most) * 48);
          const name = clockTime(now - (MINUTES - 1 - minute) * MINUTE_MS);
          return (
            <rect key={name} x={minute * 4} y={48 - height} width={3} height={height} data-none={count === 0 || undefined}>
              <title>{`${name}: ${count}`}</title>
            </rect>
          );
        })}
      </svg>
      <ul class="counts">
        {words.map(([word, of = []]) => (
          <li key={word}>
            <Status word={word} /> <strong>{of.length}</strong>
          </li>
        ))}
      </ul>
      {p50 !== undefined && p95 !== undefined && (
        <>
          <p>
            p50 {duration(p50)} <span class="quiet">·</span> p95 {duration(p95)}
          </p>
          <p class="quiet">
            Time from accepted to complete, over {took.length} complete {took.length === 1 ? "instance" : "instances"}, including waits,
            retries and sleeps.
          </p>
        </>
      )}
      <p class="quiet">
        {from ? (
          <>
            Only the newest {MOST_READ} instances are counted; this hour had more before <Ago at={from} />.{" "}
          </>
        ) : (
          "All instances of this hour. "
        )}
        <Link to={hrefOf("instances", { since: "1h" })}>Show them</Link>
      </p>
    </>
  );
}

function Nothing() {
  return (
    <Empty command={`curl ${location.origin}/v1/commands -H "Authorization: Bearer $TOKEN" …`}>
      No instance was accepted in the last hour. <Link to={hrefOf("send")}>Send</Link> a command here or from a terminal. Older instances
      are under <Link to={hrefOf("instances")}>Instances</Link>.
    </Empty>
  );
}
