import { type Answer, get, type Item } from "../../data/api.ts";
import { useCatalog, useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { policyOf } from "../../parts/alert-words.ts";
import { Empty, ProblemNote } from "../../parts/page.tsx";
import { PauseMark } from "../../parts/pausing.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, Bar, begun, Quiet, seconds } from "../../parts/text.tsx";

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

interface MeasureProps {
  of: number | null;
  says: (value: number) => string;
  /** The reason why there is no value. */
  why?: string;
  /** The value of a full bar. Default: no bar. */
  most?: number;
}

function Measure({ of, says, why = "", most }: MeasureProps) {
  if (of === null) return <Quiet of="–" why={why} />;
  if (most === undefined) return <>{says(of)}</>;
  return of === 0 ? <Quiet of={says(of)} /> : <Bar share={of / most}>{says(of)}</Bar>;
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
  const number = { isNumber: true, width: "72px" } as const;
  const minor = { ...number, isMinor: true } as const;
  const backlog = ({ depth, queue }: Queue) => {
    if (depth !== null) return <Measure of={depth} most={deepest} says={(one) => one.toLocaleString()} />;
    if (queue.startsWith(LANE)) return <Quiet of="by lane" why="See each lane below." />;
    return <Quiet of={isLocal ? "not available" : "not reported"} why={UNSAID} />;
  };
  return [
    { head: "Queue", width: "1.8fr", cell: named },
    { ...number, head: "Backlog", width: "96px", narrow: "72px", cell: backlog },
    { ...minor, head: "Oldest", cell: oldest },
    { ...minor, head: "In / min", cell: (one) => <Measure of={one.in_per_minute} most={fullest} says={rate} /> },
    { ...minor, head: "Out / min", cell: (one) => <Measure of={one.out_per_minute} most={fastest} says={rate} /> },
    {
      ...number,
      head: "Lag, p99",
      width: "80px",
      narrow: "72px",
      cell: (one) => <Measure of={one.lag_seconds} says={seconds} why={UNCOUNTED} />,
    },
    { ...minor, head: "Batch time, p50 · p99", width: "152px", cell: batchTime },
    { ...minor, head: "Retried", width: "80px", cell: (one) => <Measure of={one.retry_share} most={1} says={percent} why={UNCOUNTED} /> },
    { ...number, head: "Dead letters", width: "96px", narrow: "88px", cell: deadLetters },
    ...Object.entries({ Retries: "136px", Batch: "88px", Concurrency: "96px" } as const).map(([head, width]) => ({
      ...{ ...minor, head, width },
      cell: ({ queue }: Queue) => policies.get(bareName(queue))?.[head as "Batch"] ?? <Quiet of="–" why="It is not in the catalog." />,
    })),
  ];
}

function named({ queue, paused }: Queue) {
  return (
    <>
      <Link to={hrefOf("catalog", `queue ${bareName(queue)}`)}>{bareName(queue)}</Link> <PauseMark paused={paused} />
    </>
  );
}

function oldest({ depth, oldest_seconds: age }: Queue) {
  const isEmpty = depth === 0;
  return <Measure of={isEmpty ? null : age} says={seconds} why={isEmpty ? "The queue is empty." : UNSAID} />;
}

function batchTime({ processing_p50_seconds: p50, processing_p99_seconds: p99 }: Queue) {
  return <Measure of={p50} says={(one) => `${seconds(one)} · ${seconds(p99 ?? one)}`} why={UNCOUNTED} />;
}

function deadLetters({ queue, dead_letters_open: open }: Queue) {
  return open === 0 ? <Quiet of="0" /> : <Link to={hrefOf("dead-letters", { queue })}>{open.toLocaleString()}</Link>;
}

export function Health({ minutes }: { minutes: string | undefined }) {
  const { data, problem } = useData(
    () => get("/v1/queues", { query: { minutes } as object }),
    [minutes],
    ({ kind }) => kind !== "action",
  );
  const { data: catalog } = useCatalog();
  const policies = new Map(catalog?.queues.map((one) => [one.name, policyOf(one)]));
  if (data?.items.length === 0) return <Empty>This deployment has no queue consumer.</Empty>;
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      {data && <Table label="Queues" rows={data.items} columns={columnsFor(data.items, policies)} nameOf={({ queue }) => queue} />}
      {data && <Sources data={data} />}
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
        return (
          <span key={source}>
            {begun(numbers)}: {SOURCES[source] ?? <code>{source}</code>}
            {source === "counts" && ` of the last ${minutes === 1 ? "minute" : `${minutes} minutes`}, a lower bound`}.{" "}
          </span>
        );
      })}
      Retries, batch and concurrency: from the deployed code. All numbers cover the whole deployment.
    </p>
  );
}
