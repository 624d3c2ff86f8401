import { type Answer, get, type Item, type Result, together } from "../../data/api.ts";
import { useData, useRegularly } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty, Observed, ProblemNote, Reading } from "../../parts/page.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, clockTime, duration, Quiet } from "../../parts/text.tsx";
import { begun } from "../actions/words.tsx";
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
        <Counts minutes={Number(minutes ?? 60)} type={type} queue={queue} />
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

const count = (value: number, isBad = false) => (
  <span class={value === 0 ? "quiet" : isBad ? "bad" : undefined}>{value.toLocaleString()}</span>
);
const placeOf = ({ type, queue }: TypeCounts, minutes: number) =>
  hrefOf("messages", { type, queue, minutes: minutes === 60 ? undefined : String(minutes) });

function columnsFor(at: string, minutes: number): readonly Column<TypeCounts>[] {
  const number = { width: "80px", isNumber: true } as const;
  const countOf =
    (...names: string[]) =>
    ({ outcomes }: TypeCounts) =>
      count(
        names.reduce((sum, name) => sum + (outcomes[name] ?? 0), 0),
        names.includes("captured"),
      );
  return [
    { head: "Type", width: "1.5fr", cell: (one) => <Link to={placeOf(one, minutes)}>{one.type}</Link> },
    { head: "Queue", width: "1fr", isMinor: true, cell: ({ queue }) => queue },
    { head: "By minute", width: "200px", isMinor: true, cell: (one) => <Spark counts={one} at={at} minutes={minutes} /> },
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

interface CountsProps {
  minutes: number;
  type: string | undefined;
  queue: string | undefined;
}

function Counts({ minutes, type, queue }: CountsProps) {
  const { data, problem, again } = useData(
    () => readCounts(minutes),
    [minutes],
    ({ kind }) => kind !== "action",
  );
  useRegularly(again);
  if (!data) return <Reading problem={problem} />;
  const shown = data.types.filter((one) => (type === undefined || one.type === type) && (queue === undefined || one.queue === queue));
  const isOne = type !== undefined || queue !== undefined;
  return (
    <section aria-labelledby="by-type">
      <h2 id="by-type">By type, last {minutes === 60 ? "hour" : `${minutes} minutes`}</h2>
      {problem && <ProblemNote problem={problem} />}
      {shown.length === 0 ? (
        <NoneDelivered minutes={minutes} isFiltered={isOne} />
      ) : (
        <Table
          label="Messages by type"
          rows={shown}
          columns={columnsFor(data.at, minutes)}
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
      {isOne && shown.map((one) => <ByMinute key={`${one.type} ${one.queue}`} counts={one} isAlone={shown.length === 1} />)}
    </section>
  );
}

function NoneDelivered({ minutes, isFiltered }: { minutes: number; isFiltered: boolean }) {
  if (isFiltered) return <Empty>No message of this type was delivered in this period. Clear shows all types.</Empty>;
  return (
    <Empty command={`curl ${location.origin}/v1/commands -H "Authorization: Bearer $TOKEN" …`}>
      No message was delivered in the last {duration(minutes * MINUTE_MS)}. <Link to={hrefOf("send")}>Send</Link> one from here, or from a
      terminal:
    </Empty>
  );
}

/** A chart of deliveries with a bar for each minute, the oldest minute first. The expanded row shows the same values in a table. */
function Spark({ counts, at, minutes }: { counts: TypeCounts; at: string; minutes: number }) {
  const last = Math.floor(Date.parse(at) / MINUTE_MS);
  const bars = counts.minutes.map((one) => ({
    place: minutes - 1 - (last - Date.parse(one.minute) / MINUTE_MS),
    one,
    height: sum(one.outcomes),
  }));
  const most = Math.max(1, ...bars.map(({ height }) => height));
  return (
    <svg class="spark" viewBox={`0 0 ${minutes} 20`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map(({ place, one, height }) => {
        const [whole, bad] = [Math.max(2, (height / most) * 20), ((one.outcomes.captured ?? 0) / most) * 20];
        return (
          <g key={one.minute}>
            <rect x={place} y={20 - whole} width={0.8} height={whole} />
            {bad > 0 && <rect class="bad" x={place} y={20 - bad} width={0.8} height={bad} />}
          </g>
        );
      })}
      <rect class="ground" x={0} y={19.5} width={minutes} height={0.5} />
    </svg>
  );
}

function ByMinute({ counts, isAlone }: { counts: TypeCounts; isAlone: boolean }) {
  const names = Object.keys(OUTCOMES).filter((name) => counts.outcomes[name]);
  const others = Object.keys(counts.outcomes).filter((name) => !(name in OUTCOMES));
  const columns: Column<Minute>[] = [
    { head: "Minute", width: "1fr", cell: ({ minute }) => <time datetime={minute}>{clockTime(minute).slice(0, -3)}</time> },
    ...[...names, ...others].map((name) => ({
      ...{ head: begun(name), width: "96px", narrow: "72px", isNumber: true },
      cell: ({ outcomes }: Minute) => count(outcomes[name] ?? 0, name === "captured"),
    })),
  ];
  return (
    <>
      <h2>{isAlone ? "By minute" : `${counts.type} on ${counts.queue}, by minute`}</h2>
      <div class="by-minute">
        <Table label={`${counts.type} by minute`} rows={counts.minutes} columns={columns} nameOf={({ minute }) => minute} />
      </div>
      <p class="quiet sources">{names.map((name) => `${name}: ${OUTCOMES[name]}`).join(" · ")}</p>
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

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((total, count) => total + count, 0);

async function readCounts(minutes: number): Promise<Result<{ at: string; types: TypeCounts[] }>> {
  const found = await together({
    counted: get("/v1/messages/by-minute", { query: { minutes: String(minutes) } as object }),
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
