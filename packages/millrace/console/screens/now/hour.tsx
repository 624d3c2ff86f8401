import { get, type Item, itemsOf } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Charts, periodsTo } from "../../parts/chart.tsx";
import { NothingSent } from "../../parts/page.tsx";
import { standing } from "../../parts/status.tsx";
import { Ago, duration } from "../../parts/text.tsx";

type Instance = Item<"/v1/instances">;

/** The minutes that the last hour touches. */
const MINUTES = 61;
const MINUTE_MS = 60_000;

const minuteOf = ({ accepted_at }: Instance) => Math.floor(Date.parse(accepted_at) / MINUTE_MS) * MINUTE_MS;

function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export function LastHour({ instances }: { instances: readonly Instance[] }) {
  if (instances.length === 0) {
    return (
      <NothingSent>
        No instance was accepted in the last hour. Older instances are under <Link to={hrefOf("instances")}>Instances</Link>.
      </NothingSent>
    );
  }
  const times = periodsTo(timeNow(), MINUTE_MS, MINUTES);
  // In an hour with many instances, only the newest instances are read, so that the counts of earlier minutes are unknown.
  const from = instances.length < MOST_READ ? undefined : (instances.at(-1)?.accepted_at ?? "");
  const took = instances
    .filter(({ status }) => status === "complete")
    .map(({ accepted_at, updated_at }) => Date.parse(updated_at) - Date.parse(accepted_at))
    .toSorted((one, other) => one - other);
  const [p50, p95] = [quantile(took, 0.5), quantile(took, 0.95)];
  const series = [...Map.groupBy(instances, standing)]
    .toSorted(([, one], [, other]) => other.length - one.length)
    .map(([name, all]) => ({ name, values: times.map((at) => all.filter((one) => minuteOf(one) === at).length) }));
  return (
    <>
      <Charts
        table="Accepted by minute"
        times={times}
        charts={[{ title: "Accepted", label: "Accepted by minute", series, none: "none accepted" }]}
      />
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

const MOST_READ = 200;

/** Reads the instances of the last hour. `isFirst` is true if the tenant has never had an instance. */
export async function readHour() {
  const hour = await itemsOf(get("/v1/instances", { query: { since: "1h", limit: String(MOST_READ) } }));
  if (!hour.ok) return hour;
  const any = hour.data.length > 0 ? hour : await itemsOf(get("/v1/instances", { query: { limit: "1" } }));
  return any.ok ? { ok: true as const, data: { instances: hour.data, isFirst: any.data.length === 0 } } : any;
}
