import { get, type Item, itemsOf } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty } from "../../parts/page.tsx";
import { Status, standing } from "../../parts/status.tsx";
import { Ago, clockTime, duration } from "../../parts/text.tsx";

type Instance = Item<"/v1/instances">;

const MINUTES = 60;
const MINUTE_MS = 60_000;

const FAILED = new Set(["errored", "dead"]);

function byMinute(instances: readonly Instance[], now: number): { all: number; failed: number }[] {
  const minutes = Array.from({ length: MINUTES }, () => ({ all: 0, failed: 0 }));
  for (const { accepted_at, status } of instances) {
    const ago = Math.floor((now - Date.parse(accepted_at)) / MINUTE_MS);
    const minute = minutes[MINUTES - 1 - Math.max(0, ago)];
    if (!minute) continue;
    minute.all++;
    if (FAILED.has(status)) minute.failed++;
  }
  return minutes;
}

function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export function LastHour({ instances }: { instances: readonly Instance[] }) {
  if (instances.length === 0) return <Nothing />;
  const now = timeNow();
  const counts = byMinute(instances, now);
  // In an hour with many instances, only the newest instances are read, so that the counts of earlier minutes are unknown.
  const from = instances.length < MOST_READ ? undefined : (instances.at(-1)?.accepted_at ?? "");
  const first = from === undefined ? 0 : Math.max(0, MINUTES - 1 - Math.floor((now - Date.parse(from)) / MINUTE_MS));
  const most = Math.max(1, ...counts.map(({ all }) => all));
  const took = instances
    .filter(({ status }) => status === "complete")
    .map(({ accepted_at, updated_at }) => Date.parse(updated_at) - Date.parse(accepted_at))
    .toSorted((one, other) => one - other);
  const [p50, p95] = [quantile(took, 0.5), quantile(took, 0.95)];
  const words = Object.entries(Object.groupBy(instances, standing)).toSorted(([, one = []], [, other = []]) => other.length - one.length);
  return (
    <>
      <div class="minutes">
        <p>
          <span>{most} per minute</span>
          <span>
            <i /> accepted <i class="failed" /> failed
          </span>
        </p>
        <svg
          viewBox="0 0 240 48"
          preserveAspectRatio="none"
          role="img"
          aria-label={`Accepted by minute, ${most} at most${from ? `, from ${clockTime(from)} on` : ""}; see also the counts below`}
        >
          {counts.map(({ all, failed }, minute) => {
            if (minute < first) return null;
            const name = clockTime(now - (MINUTES - 1 - minute) * MINUTE_MS).slice(0, -3);
            const bar = (count: number) => {
              const height = count === 0 ? 0 : Math.max(3, (count / most) * 48);
              return { x: minute * 4, y: 48 - height, width: 3, height };
            };
            return (
              <g key={name}>
                <rect {...bar(all)} />
                <rect class="failed" {...bar(failed)} />
                <rect class="hit" x={minute * 4} y={0} width={4} height={48}>
                  <title>{`${name}: ${all} accepted, ${failed} failed`}</title>
                </rect>
              </g>
            );
          })}
        </svg>
        <p>
          <span>{clockTime(now - MINUTES * MINUTE_MS).slice(0, -3)}</span>
          <span>now</span>
        </p>
      </div>
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

const MOST_READ = 200;

/** Reads the instances of the last hour. `isFirst` is true if the tenant has never had an instance. */
export async function readHour() {
  const hour = await itemsOf(get("/v1/instances", { query: { since: "1h", limit: String(MOST_READ) } }));
  if (!hour.ok) return hour;
  const any = hour.data.length > 0 ? hour : await itemsOf(get("/v1/instances", { query: { limit: "1" } }));
  return any.ok ? { ok: true as const, data: { instances: hour.data, isFirst: any.data.length === 0 } } : any;
}
