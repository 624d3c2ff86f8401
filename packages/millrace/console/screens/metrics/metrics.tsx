import { useState } from "preact/hooks";
import { type Answer, get } from "../../data/api.ts";
import { useData, useRegularly } from "../../data/use-data.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty, Observed, ProblemNote, Reading } from "../../parts/page.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, exact, seconds } from "../../parts/text.tsx";
import { Bars, Lines, type Period, type Window } from "./plot.tsx";
import "./metrics.css";

const FILTERS = {
  span: { label: "Period", options: { hour: "last two days" }, unset: "last hour" },
  workflow: {
    label: "Workflow",
    known: async () => {
      const read = await get("/v1/workflows/by-time", { query: { span: "hour" } });
      return read.ok ? namesIn(read.data.items) : [];
    },
  },
} as const;

const SPANS = { minute: { ms: 60_000, count: 60 }, hour: { ms: 3_600_000, count: 48 } } as const;

/** Maximum number of workflows that are shown. The filter can show other workflows. */
const MOST_SHOWN = 8;

const namesIn = (items: readonly Period[]) => [...new Set(items.map(({ workflow }) => workflow))].sort();
const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((total, one) => total + one, 0);

export function Metrics() {
  const { span, workflow } = useFilters(FILTERS);
  return (
    <div class="metrics">
      <h1>Metrics</h1>
      <Observed what="Runs are counted">
        <FilterBar filters={FILTERS} />
        <Workflows span={span === "hour" ? "hour" : "minute"} workflow={workflow} />
      </Observed>
    </div>
  );
}

function Workflows({ span, workflow }: { span: keyof typeof SPANS; workflow: string | undefined }) {
  const { data, problem, again } = useData(() => get("/v1/workflows/by-time", { query: { span } }), [span]);
  useRegularly(again);
  if (!data) return <Reading problem={problem} />;
  const of = Object.entries(Object.groupBy(data.items, (one) => one.workflow))
    .map(([name, periods = []]) => ({ name, periods, runs: periods.reduce((total, { ended }) => total + sum(ended), 0) }))
    .filter(({ name }) => workflow === undefined || name === workflow)
    .toSorted((one, other) => other.runs - one.runs || (one.name < other.name ? -1 : 1));
  const more = of.slice(MOST_SHOWN).map(({ name }) => name);
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      {of.length === 0 && <None workflow={workflow} />}
      {of.slice(0, MOST_SHOWN).map(({ name, periods }) => (
        <OfWorkflow key={`${span} ${name}`} name={name} periods={periods} window={windowOf(data, span)} />
      ))}
      {more.length > 0 && (
        <p>
          {more.length === 1 ? "One more workflow has" : `${more.length} more workflows have`} counts:{" "}
          {more.map((name, nth) => (
            <span key={name}>
              {nth > 0 && ", "}
              <Link to={hrefOf("metrics", { workflow: name, ...(span === "hour" && { span }) })}>{name}</Link>
            </span>
          ))}
        </p>
      )}
      {of.length > 0 && (
        <p class="quiet sources">
          Updated <Ago at={data.at} />. For all tenants. The last {span} is not over. {span === "hour" ? "An hour" : "A minute"} without a
          bar has no ended run, or its counts are lost or older than this deployment. Counts are a lower bound: the last{" "}
          {span === "hour" ? "minute" : "ten seconds"} may be missing. p50 and p99 are those of step attempts, interpolated between fixed
          bounds of at most 5 minutes.
        </p>
      )}
    </>
  );
}

function None({ workflow }: { workflow: string | undefined }) {
  return (
    <Empty>
      No run{workflow && ` of ${workflow}`} ended and no step{workflow && " of it"} was attempted in this period.{" "}
      {workflow ? "Names must match exactly. Clear shows all." : "The counts are about ten seconds late."}
    </Empty>
  );
}

function windowOf({ at }: Answer<"/v1/workflows/by-time">, span: keyof typeof SPANS): Window {
  const { ms, count } = SPANS[span];
  const last = Math.floor(Date.parse(at) / ms) * ms;
  return { times: Array.from({ length: count }, (_, nth) => last - (count - 1 - nth) * ms), labelOf: labelOf(span) };
}

/** Formats the label of a period, such as `14:05` for a minute and `11-27 14:00` for an hour. */
const labelOf = (span: keyof typeof SPANS) => (at: number) => exact(at).slice(span === "hour" ? 5 : 11, 16);

const ORDER = ["complete", "terminated", "errored"];
const rank = (status: string) => (ORDER.indexOf(status) + ORDER.length) % ORDER.length;

const taken = (value: number | null) => (value === null ? "–" : seconds(value));

function OfWorkflow({ name, periods, window }: { name: string; periods: readonly Period[]; window: Window }) {
  const [chosen, choose] = useState<number>();
  const known = new Map(periods.map((one) => [Date.parse(one.at), one]));
  const slots = window.times.map((at) => known.get(at));
  const statuses = [...new Set(periods.flatMap(({ ended }) => Object.keys(ended)))].sort((one, other) => rank(one) - rank(other));
  const endedIn = (at: number) =>
    statuses.flatMap((status) => (slots[at]?.ended[status] ? [`${status} ${slots[at].ended[status].toLocaleString()}`] : [])).join(", ") ||
    "no ended run";
  const tookIn = (at: number) => {
    const one = slots[at];
    if (!one?.attempts) return "no step attempt";
    return `p50 ${taken(one.step_p50_seconds)}, p99 ${taken(one.step_p99_seconds)} of ${one.attempts.toLocaleString()} attempts`;
  };
  const shared = { workflow: name, window, slots, chosen, choose };
  const timeOf = (at: number) => window.labelOf(window.times[at] ?? 0);
  return (
    <section class="of-workflow" aria-label={name}>
      <h2>
        <Link to={hrefOf("catalog", `workflow ${name}`)}>{name}</Link>
      </h2>
      <div class="plots">
        <Bars {...shared} said={endedIn} statuses={statuses} />
        <Lines {...shared} said={tookIn} />
      </div>
      <p class="value">
        {chosen === undefined ? (
          <span class="quiet">Point at a bar, or focus a chart and use the arrow keys, to read its values.</span>
        ) : (
          <>
            <strong>{timeOf(chosen)}</strong> {endedIn(chosen)} · {tookIn(chosen)}
          </>
        )}
      </p>
      <details>
        <summary class="quiet">As a table</summary>
        <div class="twin">
          <Table
            label={`${name} over time`}
            rows={periods.toSorted((one, other) => (one.at < other.at ? 1 : -1))}
            columns={columnsOf(statuses, window)}
            nameOf={({ at }) => at}
          />
        </div>
      </details>
    </section>
  );
}

function columnsOf(statuses: readonly string[], { labelOf }: Window): Column<Period>[] {
  const number = { width: "96px", narrow: "1fr", isNumber: true } as const;
  return [
    { head: "Time", width: "104px", narrow: "92px", cell: ({ at }) => <time datetime={at}>{labelOf(Date.parse(at))}</time> },
    ...statuses.map((head) => ({ ...number, head, cell: ({ ended }: Period) => (ended[head] ?? 0).toLocaleString() })),
    { ...number, head: "p50", cell: (one) => taken(one.step_p50_seconds) },
    { ...number, head: "p99", cell: (one) => taken(one.step_p99_seconds) },
    { ...number, head: "Attempts", isMinor: true, cell: ({ attempts }) => attempts.toLocaleString() },
  ];
}
