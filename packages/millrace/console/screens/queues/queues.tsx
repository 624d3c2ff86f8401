import type { Item } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { FilterBar, type Filters, filtersOf, ONE_CAUSE, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { CauseOf } from "../../parts/cause.tsx";
import { List } from "../../parts/list.tsx";
import { Observed } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { Ago, Name, shortId } from "../../parts/text.tsx";
import { Health } from "./health.tsx";
import { Lane, wordFor } from "./lane.tsx";

const LANE_FILTERS = filtersOf("/v1/lanes", { lane: {}, state: {}, cause: ONE_CAUSE });
const RATES = {
  minutes: { label: "Rates over the last", options: { 1: "minute", 15: "15 minutes", 60: "hour" }, unset: "5 minutes" },
} as const;
const KEY = { key: { label: "Key" } } as const;
const FILTERS = { ...RATES, ...LANE_FILTERS, ...KEY } as const;

export function Queues() {
  const { minutes, key, ...lanes } = useFilters(FILTERS);
  const { lane, cause } = lanes;
  if (lane !== undefined && key !== undefined) return <Lane key={`${lane}/${key}`} lane={lane} name={key} />;
  if (Object.keys(lanes).length > 0)
    return (
      <>
        <h1>Stalled lanes</h1>
        {cause && <OfCause id={cause} />}
        <Lanes filters={{ ...LANE_FILTERS, ...(lane && KEY) }} />
      </>
    );
  return (
    <>
      <h1>Queues and lanes</h1>
      <FilterBar filters={{ ...(may("observe") && RATES), lane: LANE_FILTERS.lane }} />
      <Observed what="Queue health is measured">
        <Health minutes={minutes} />
      </Observed>
      <h2>Stalled lanes</h2>
      <Lanes filters={{}} />
    </>
  );
}

type Noted = Item<"/v1/lanes">;

const COLUMNS: readonly Column<Noted>[] = [
  { of: "state", width: "104px", narrow: "88px", cell: (one) => <Status word={wordFor(one)} /> },
  { of: "lane" },
  { of: "key", width: "1.4fr", cell: ({ key }) => <Name of={key} /> },
  { head: "Blocked by", width: "3.4fr", isMinor: true, cell: (one) => <Blocked by={one} /> },
  { of: "depth", head: "Waiting", width: "64px", isMinor: true, isNumber: true },
  { of: "oldest_at", head: "Since", cell: ({ oldest_at, recorded_at }) => <Ago at={oldest_at ?? recorded_at} /> },
];

function Blocked({ by: { why, ahead } }: { by: Noted }) {
  const failed = ahead.find((one) => one.failed !== null);
  if (!failed) return <bdi title={why ?? ""}>{why ?? "not blocked: it has a backlog"}</bdi>;
  return (
    <span title={failed.failed ?? ""}>
      <Link to={hrefOf("instances", failed.instance_id)}>{shortId(failed.instance_id)}</Link>: <bdi>{failed.failed}</bdi>
    </span>
  );
}

function Lanes({ filters }: { filters: Filters }) {
  return (
    <List
      {...{ at: "/v1/lanes", filters, columns: COLUMNS, about: () => true }}
      nameOf={({ lane, key }) => `${lane}/${key}`}
      label="Lanes"
      noun="stalled lane"
      empty="No lane is stalled. This list shows lanes that are held or paused, or have a message that has waited for ten seconds. A lane keeps the messages of one key in order; defineLaneQueue defines a queue of lanes."
      below={(one) => <Blocked by={one} />}
      hrefOf={({ lane, key }) => hrefOf("queues", { lane, key })}
    />
  );
}

function OfCause({ id }: { id: string }) {
  return (
    <>
      <CauseOf at="/v1/instances/causes" id={id} />
      <p>
        Each of these lanes is blocked by a failed instance.{" "}
        <Link to={hrefOf("instances", { status: "errored", cause: id })}>Retry or close these</Link> together: a retry keeps the order;
        closing them lets the lanes continue without them.
      </p>
    </>
  );
}
