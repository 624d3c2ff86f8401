import { get, type Item } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { sinceOf } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty } from "../../parts/empty.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status, standing } from "../../parts/status.tsx";
import { clockTime, duration } from "../../parts/time.tsx";
import { readHour } from "./needs.ts";

type Instance = Item<"/v1/instances">;

const MINUTES = 60;
const MINUTE_MS = 60_000;

/** How many were accepted in each of the last 60 minutes, oldest first. */
function byMinute(instances: readonly Instance[], now: number): number[] {
  const counts = new Array<number>(MINUTES).fill(0);
  for (const { accepted_at } of instances) {
    const ago = Math.floor((now - Date.parse(accepted_at)) / MINUTE_MS);
    const at = MINUTES - 1 - Math.max(0, ago);
    if (at >= 0) counts[at] = (counts[at] ?? 0) + 1;
  }
  return counts;
}

/** A share of sorted numbers: 0.5 is the median. */
function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** What the last hour brought, by the newest 200 instances, which it says. */
export function LastHour() {
  const { data: instances, problem } = useData(
    () => readHour(sinceOf("1h") ?? ""),
    [],
    ({ kind }) => kind === "instance" || kind === "skipped",
  );
  if (!instances) return problem ? <ProblemNote problem={problem} /> : <p class="quiet">Reading …</p>;
  if (instances.length === 0) return <Nothing />;
  const now = Date.now();
  const counts = byMinute(instances, now);
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
        aria-label={`Accepted by minute, ${most} at most; the same as the counts below`}
      >
        {counts.map((count, minute) => {
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
        <p>
          p50 {duration(p50)} <span class="quiet">·</span> p95 {duration(p95)} <span class="quiet">from accepted to complete</span>
        </p>
      )}
      <p class="quiet">
        {instances.length === 200 ? "Of the newest 200 of this hour. " : "All of this hour. "}
        <Link to={hrefOf("instances", { since: "1h" })}>Show them</Link>
      </p>
    </>
  );
}

/** What an empty console says: on a development machine that has something to try, the first minute. */
function Nothing() {
  const { data } = useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
  const first = data?.first_command;
  if (first) {
    const message = `command ${first.type}`;
    return (
      <div class="empty">
        <p>Nothing was asked for in the last hour. The first minute, from a command sent to a failure retried:</p>
        <ol>
          <li>
            <Link to={hrefOf("send", { message, example: "first" })}>Open a command that fails once</Link>: its form is filled in, and its
            key is shown.
          </li>
          <li>Press Send. Its instance opens, and says why it failed.</li>
          <li>Press Retry. What would run again is shown first; say why, and see it complete.</li>
        </ol>
        <p>
          Older work is under <Link to={hrefOf("instances")}>Instances</Link>; what there is to send, in the{" "}
          <Link to={hrefOf("catalog")}>Catalog</Link>.
        </p>
      </div>
    );
  }
  return (
    <Empty command={`curl ${location.origin}/v1/commands -H "Authorization: Bearer $TOKEN" …`}>
      Nothing was asked for in the last hour. <Link to={hrefOf("send")}>Send</Link> a command from here, or from a terminal; older work is
      under <Link to={hrefOf("instances")}>Instances</Link>.
    </Empty>
  );
}
