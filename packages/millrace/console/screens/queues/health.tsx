import { type Answer, get, type Item } from "../../data/api.ts";
import { useCatalog, useData, useRegularly } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty, ProblemNote } from "../../parts/page.tsx";
import { PauseMark } from "../../parts/pausing.tsx";
import { policyOf } from "../../parts/policy.ts";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, Bar, duration, Quiet } from "../../parts/text.tsx";

type Queue = Item<"/v1/queues">;

const LANE = "lane:";

const bareName = (queue: string) => queue.replace(LANE, "");

const OF_SOURCES: Readonly<Record<string, string>> = {
  depth: "backlog",
  oldest_seconds: "oldest",
  in_per_minute: "in",
  out_per_minute: "out",
  lag_seconds: "lag",
  processing_p50_seconds: "batch",
  retry_share: "retried",
  dead_letters_open: "dead letters",
};

const SOURCES: Readonly<Record<string, string>> = { counts: "counts", d1: "the database", platform: "the platform" };

const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

const None = ({ why, of = "–" }: { why: string; of?: string }) => <Quiet of={of} why={why} />;

const seconds = (value: number) => duration(value * 1000);

function Amount({ value, most, says }: { value: number; most: number; says: (value: number) => string }) {
  return value === 0 ? <Quiet of={says(value)} /> : <Bar share={value / most}>{says(value)}</Bar>;
}

const percent = (share: number) => `${Number((share * 100).toFixed(1))} %`;

function rate(value: number): string {
  return value === 0 || value >= 10 ? String(Math.round(value)) : value.toFixed(value < 0.1 ? 2 : 1);
}

const UNCOUNTED = "No delivery in this period, so there is no measurement.";
const UNSAID = isLocal ? "Not available locally: the local queue does not report it." : "The queue does not report it.";

type Policies = ReadonlyMap<string, ReturnType<typeof policyOf>>;

function columnsFor(items: readonly Queue[], policies: Policies): readonly Column<Queue>[] {
  const most = (of: (one: Queue) => number | null) => Math.max(1e-9, ...items.map((one) => of(one) ?? 0));
  const [deepest, fullest, fastest] = [most(({ depth }) => depth), most((one) => one.in_per_minute), most((one) => one.out_per_minute)];
  return [
    {
      head: "Queue",
      width: "1.8fr",
      cell: ({ queue, paused }) => (
        <>
          <Link to={hrefOf("catalog", `queue ${bareName(queue)}`)}>{queue}</Link> <PauseMark paused={paused} />
        </>
      ),
    },
    {
      head: "Backlog",
      width: "96px",
      narrow: "72px",
      isNumber: true,
      cell: (one) =>
        one.depth !== null ? (
          <Amount value={one.depth} most={deepest} says={(depth) => depth.toLocaleString()} />
        ) : !one.queue.startsWith(LANE) ? (
          <None why={UNSAID} of={isLocal ? "not available" : "not reported"} />
        ) : (
          <None why="See each lane below." of="by lane" />
        ),
    },
    {
      head: "Oldest",
      width: "72px",
      isMinor: true,
      isNumber: true,
      cell: ({ depth, oldest_seconds: oldest }) =>
        oldest === null ? <None why={UNSAID} /> : depth === 0 ? <None why="The queue is empty." /> : seconds(oldest),
    },
    {
      head: "In / min",
      width: "72px",
      isMinor: true,
      isNumber: true,
      cell: (one) => <Amount value={one.in_per_minute} most={fullest} says={rate} />,
    },
    {
      head: "Out / min",
      width: "72px",
      isMinor: true,
      isNumber: true,
      cell: (one) => <Amount value={one.out_per_minute} most={fastest} says={rate} />,
    },
    {
      head: "Lag, p99",
      width: "80px",
      narrow: "72px",
      isNumber: true,
      cell: ({ lag_seconds: lag }) => (lag === null ? <None why={UNCOUNTED} /> : seconds(lag)),
    },
    {
      head: "Batch time, p50 · p99",
      width: "152px",
      isMinor: true,
      isNumber: true,
      cell: ({ processing_p50_seconds: p50, processing_p99_seconds: p99 }) =>
        p50 === null || p99 === null ? <None why={UNCOUNTED} /> : `${seconds(p50)} · ${seconds(p99)}`,
    },
    {
      head: "Retried",
      width: "80px",
      isMinor: true,
      isNumber: true,
      cell: ({ retry_share: share }) => (share === null ? <None why={UNCOUNTED} /> : <Amount value={share} most={1} says={percent} />),
    },
    {
      head: "Dead letters",
      width: "96px",
      narrow: "88px",
      isNumber: true,
      cell: ({ queue, dead_letters_open: open }) =>
        open === 0 ? <span class="quiet">0</span> : <Link to={hrefOf("dead-letters", { queue })}>{open.toLocaleString()}</Link>,
    },
    ...(["Retries", "Batch", "Concurrency"] as const).map((head) => ({
      head,
      width: { Retries: "136px", Batch: "88px", Concurrency: "96px" }[head],
      isMinor: true,
      isNumber: true,
      cell: ({ queue }: Queue) => policies.get(bareName(queue))?.[head] ?? <None why="It is not in the catalog." />,
    })),
  ];
}

export function Health({ minutes }: { minutes: string | undefined }) {
  const { data, problem, again } = useData(
    () => get("/v1/queues", { query: { minutes } as object }),
    [minutes],
    ({ kind }) => kind !== "action",
  );
  const { data: catalog } = useCatalog();
  useRegularly(again);
  const policies = new Map(catalog?.queues.map((one) => [one.name, policyOf(one)]));
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      {data?.items.length === 0 && <Empty>This deployment has no queue consumer.</Empty>}
      {data && data.items.length > 0 && (
        <>
          <Table label="Queues" rows={data.items} columns={columnsFor(data.items, policies)} nameOf={({ queue }) => queue} />
          <Sources data={data} />
        </>
      )}
    </>
  );
}

function Sources({ data: { at, minutes, sources } }: { data: Answer<"/v1/queues"> }) {
  const named = Object.entries(sources).filter(([number]) => OF_SOURCES[number]);
  const groups = Object.entries(Object.groupBy(named, ([, { source }]) => source));
  return (
    <p class="quiet sources">
      Updated <Ago at={at} />.{" "}
      {groups.map(([source, of = []]) => {
        const numbers = of.map(([number]) => OF_SOURCES[number]).join(", ");
        const [first = "", ...rest] = numbers;
        return (
          <span key={source}>
            {first.toUpperCase() + rest.join("")}: {SOURCES[source] ?? <code>{source}</code>}
            {source === "counts" && ` of the last ${minutes === 1 ? "minute" : `${minutes} minutes`}, a lower bound`}.{" "}
          </span>
        );
      })}
      Retries, batch and concurrency: from the deployed code. All numbers cover the whole deployment.
    </p>
  );
}
