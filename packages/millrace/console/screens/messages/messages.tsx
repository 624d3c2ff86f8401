import { type Answer, get, type Item, type Result, together } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Charts, periodsTo, type Series, Spark } from "../../parts/chart.tsx";
import { Empty, NothingSent, Observed, ProblemNote, Reading, Section } from "../../parts/page.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, duration, Quiet } from "../../parts/text.tsx";
import { Found } from "./found.tsx";
import "./messages.css";

const FILTERS = {
  q: { label: "Key, subject or id" },
  minutes: { label: "Period", options: { 5: "last 5 minutes", 15: "last 15 minutes", 30: "last 30 minutes" }, unset: "last hour" },
  type: { label: "Type", isRare: true },
  queue: { label: "Queue", isRare: true },
} as const;

export function Messages() {
  const { q, minutes, type, queue } = useFilters(FILTERS);
  return (
    <div class="messages">
      <h1>Messages</h1>
      <FilterBar filters={FILTERS} />
      {q !== undefined && <Found key={q} q={q} />}
      <Observed what="Messages are counted">
        <Counts period={minutes ?? "60"} type={type} queue={queue} />
      </Observed>
    </div>
  );
}

const MINUTE_MS = 60_000;

/** The meaning of each outcome of a delivery (docs/metrics.md), the most relevant first. */
const OUTCOMES: Readonly<Record<string, string>> = {
  started: "an instance started",
  routed: "delivered to its routes",
  "put off": "accepted, started a little later",
  duplicate: "a duplicate, without effect",
  kept: "no longer needed: its row was already delivered",
  settled: "its dead letter was already settled by an operator",
  retried: "returned to the queue for a retry",
  captured: "refused and kept as a dead letter",
};

const placeOf = ({ type, queue }: TypeCounts, minutes: number) =>
  hrefOf("messages", { type, queue, minutes: minutes === 60 ? undefined : String(minutes) });

const countOf = (...names: string[]) => {
  const tone = names.includes("captured") ? "bad" : undefined;
  return ({ outcomes }: TypeCounts) => {
    const count = names.reduce((sum, name) => sum + (outcomes[name] ?? 0), 0);
    return <span class={count === 0 ? "quiet" : tone}>{count.toLocaleString()}</span>;
  };
};

function columnsFor(times: readonly number[], minutes: number): readonly Column<TypeCounts>[] {
  const number = { width: "80px", isNumber: true } as const;
  return [
    { head: "Type", width: "1.5fr", cell: (one) => <Link to={placeOf(one, minutes)}>{one.type}</Link> },
    { of: "queue", isMinor: true },
    { head: "By minute", width: "200px", isMinor: true, cell: (one) => <Spark series={seriesOf(one, times)} count={minutes} /> },
    { ...number, head: "Accepted", narrow: "64px", cell: countOf("started", "routed", "put off") },
    { ...number, head: "Duplicates", isMinor: true, cell: countOf("duplicate", "kept", "settled") },
    { ...number, head: "Retried", isMinor: true, cell: countOf("retried") },
    { ...number, head: "Refused", narrow: "64px", cell: countOf("captured") },
    { ...number, head: "Dead letters", width: "96px", narrow: "80px", cell: deadLetters },
  ];
}

function deadLetters({ open, captured, queue, type }: TypeCounts) {
  if (open === 0) return <Quiet of="0" why={`${captured} in the last day, all settled`} />;
  return (
    <Link to={hrefOf("dead-letters", { queue, type })} title={`${open} of ${captured} are open`}>
      {open.toLocaleString()}
    </Link>
  );
}

function Counts({ period, type, queue }: { period: string; type: string | undefined; queue: string | undefined }) {
  const { data, problem } = useData(
    () => readCounts(period),
    [period],
    ({ kind }) => kind !== "action",
  );
  if (!data) return <Reading problem={problem} />;
  const minutes = Number(period);
  const shown = data.types.filter((one) => (type === undefined || one.type === type) && (queue === undefined || one.queue === queue));
  const times = periodsTo(Date.parse(data.at), MINUTE_MS, minutes);
  const isOne = type !== undefined || queue !== undefined;
  return (
    <Section title={`By type, last ${minutes === 60 ? "hour" : `${minutes} minutes`}`}>
      {problem && <ProblemNote problem={problem} />}
      {shown.length === 0 && isOne && <Empty>No message of this type was delivered in this period. Clear shows all types.</Empty>}
      {shown.length === 0 && !isOne && <NothingSent>No message was delivered in the last {duration(minutes * MINUTE_MS)}.</NothingSent>}
      {shown.length > 0 && (
        <Table
          label="Messages by type"
          rows={shown}
          columns={columnsFor(times, minutes)}
          nameOf={(one) => `${one.type} ${one.queue}`}
          hrefOf={(one) => placeOf(one, minutes)}
        />
      )}
      {shown.length > 0 && (
        <p class="quiet sources">
          Updated <Ago at={data.at} />. Counted when deliveries are settled, for all tenants. The counts are a lower bound: the last ten
          seconds may be missing. Dead letters are those of the last day, from the database. Refused HTTP requests are not counted.
        </p>
      )}
      {isOne && shown.map((one) => <ByMinute key={`${one.type} ${one.queue}`} counts={one} times={times} isAlone={shown.length === 1} />)}
    </Section>
  );
}

/** The counts of a type by outcome and minute, refused messages first. */
function seriesOf({ outcomes, minutes: of }: TypeCounts, times: readonly number[]): Series[] {
  const known = new Map(of.map((one) => [Date.parse(one.minute), one.outcomes]));
  const names = [...new Set([...Object.keys(OUTCOMES).toReversed(), ...Object.keys(outcomes)])].filter((name) => outcomes[name]);
  return names.map((name) => ({ name, values: times.map((at) => known.get(at)?.[name]) }));
}

function ByMinute({ counts, times, isAlone }: { counts: TypeCounts; times: readonly number[]; isAlone: boolean }) {
  const series = seriesOf(counts, times);
  const label = `${counts.type} by minute`;
  return (
    <>
      <h2>{isAlone ? "By minute" : `${counts.type} on ${counts.queue}, by minute`}</h2>
      <Charts table={label} times={times} charts={[{ title: "Deliveries", label, series, none: "no delivery" }]} />
      <p class="quiet sources">{series.flatMap(({ name }) => (OUTCOMES[name] ? [`${name}: ${OUTCOMES[name]}`] : [])).join(" · ")}</p>
    </>
  );
}

type Minute = Item<"/v1/messages/by-minute">;

interface TypeCounts {
  type: string;
  queue: string;
  minutes: Minute[];
  outcomes: Readonly<Record<string, number>>;
  open: number;
  captured: number;
}

async function readCounts(minutes: string): Promise<Result<{ at: string; types: TypeCounts[] }>> {
  const found = await together({
    counted: get("/v1/messages/by-minute", { query: { minutes } as object }),
    letters: get("/v1/messages/dead-letters"),
  });
  if (!found.ok) return found;
  const { counted, letters } = found.data;
  return { ok: true, data: { at: counted.at, types: byType(counted.items, letters.items) } };
}

function byType(minutes: readonly Minute[], letters: Answer<"/v1/messages/dead-letters">["items"]): TypeCounts[] {
  const nameOf = ({ queue, type }: { queue: string; type: string }) => JSON.stringify([type, queue]);
  const counted = Map.groupBy(minutes, nameOf);
  const dead = new Map(letters.map((one) => [nameOf(one), one]));
  return [...new Set([...counted.keys(), ...dead.keys()])].sort().map((name): TypeCounts => {
    const [type, queue] = JSON.parse(name) as [string, string];
    const own = counted.get(name) ?? [];
    const outcomes: Record<string, number> = {};
    for (const one of own)
      for (const [outcome, count] of Object.entries(one.outcomes)) outcomes[outcome] = (outcomes[outcome] ?? 0) + count;
    const { open = 0, captured = 0 } = dead.get(name) ?? {};
    return { type, queue, minutes: own, outcomes, open, captured };
  });
}
