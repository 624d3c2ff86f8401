import type { Item } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useCause, useList, useRegularly } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Observed } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago, Name, shortId } from "../../parts/text.tsx";
import { Health } from "./health.tsx";
import { Lane, wordFor } from "./lane.tsx";

const STATES = ["held", "blocked", "paused", "retrying", "waiting", "delayed", "moving", "unknown"] as const;

const LANE_FILTERS = {
  lane: { label: "Lane" },
  state: { label: "State", options: Object.fromEntries(STATES.map((state) => [state, state])) },
  cause: { label: "Cause", isRare: true, options: {}, other: "one cause" },
} as const;

const RATES = {
  minutes: { label: "Rates over the last", options: { 1: "minute", 15: "15 minutes", 60: "hour" }, unset: "5 minutes" },
} as const;
const KEY = { key: { label: "Key" } } as const;
const FILTERS = { ...RATES, ...LANE_FILTERS, ...KEY } as const;

export function Queues() {
  const { minutes, key, ...lanes } = useFilters(FILTERS);
  const { lane } = lanes;
  if (lane !== undefined && key !== undefined) return <Lane key={`${lane}/${key}`} lane={lane} name={key} />;
  if (Object.keys(lanes).length > 0)
    return (
      <>
        <h1>Lanes</h1>
        <FilterBar filters={{ ...LANE_FILTERS, ...(lane && KEY) }} />
        <Lanes filters={lanes} />
      </>
    );
  return (
    <>
      <h1>Queues and lanes</h1>
      <FilterBar filters={{ ...(may("observe") && RATES), lane: LANE_FILTERS.lane }} />
      <Observed what="Queue health is measured">
        <Health minutes={minutes} />
      </Observed>
      <Lanes />
    </>
  );
}

type Noted = Item<"/v1/lanes">;

const COLUMNS: readonly Column<Noted>[] = [
  { head: "State", width: "104px", narrow: "88px", cell: (one) => <Status word={wordFor(one)} /> },
  { head: "Lane", width: "1fr", cell: ({ lane }) => lane },
  { head: "Key", width: "1.4fr", cell: ({ key }) => <Name of={key} /> },
  { head: "Blocked by", width: "3.4fr", isMinor: true, cell: (one) => <Blocked by={one} /> },
  { head: "Waiting", width: "64px", isMinor: true, isNumber: true, cell: ({ depth }) => depth.toLocaleString() },
  {
    head: "Since",
    width: "96px",
    narrow: "92px",
    isNumber: true,
    cell: ({ oldest_at, recorded_at }) => <Ago at={oldest_at ?? recorded_at} />,
  },
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

const nameOf = ({ lane, key }: Noted) => `${lane}/${key}`;

function Lanes({ filters = {} }: { filters?: Partial<Record<keyof typeof LANE_FILTERS, string>> }) {
  const pages = useList("/v1/lanes", filters, { nameOf, about: () => true });
  useRegularly(pages.again);
  const isFiltered = Object.values(filters).some(Boolean);
  return (
    <section aria-labelledby="lanes">
      <h2 id="lanes">Stalled lanes</h2>
      {filters.cause && <OfCause id={filters.cause} />}
      <TableList
        label="Lanes"
        pages={pages}
        noun={["lane", "lanes"]}
        empty={
          <p class="quiet">
            {isFiltered
              ? "No stalled lane matches these filters. Clear shows all."
              : "No lane is stalled. This list shows lanes that are held or paused, or have a message that has waited for ten seconds. A lane keeps the messages of one key in order; defineLaneQueue defines a queue of lanes."}
          </p>
        }
        columns={COLUMNS}
        below={(one) => <Blocked by={one} />}
        hrefOf={({ lane, key }) => hrefOf("queues", { lane, key })}
      />
    </section>
  );
}

function OfCause({ id }: { id: string }) {
  const cause = useCause("/v1/instances/causes", id);
  return (
    <>
      {cause && (
        <p class="cause" data-tone="red">
          <bdi>{[cause.step, cause.message].filter(Boolean).join(": ")}</bdi>
        </p>
      )}
      <p>
        Each of these lanes is blocked by a failed instance.{" "}
        <Link to={hrefOf("instances", { status: "errored", cause: id })}>Retry or close these</Link> together: a retry keeps the order;
        closing them lets the lanes continue without them.
      </p>
    </>
  );
}
