import { get, type Item } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { FilterBar, suggested, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Charts, periodsTo } from "../../parts/chart.tsx";
import { Empty, Observed, ProblemNote, Reading } from "../../parts/page.tsx";
import { Ago, exact, seconds } from "../../parts/text.tsx";

type Period = Item<"/v1/workflows/by-time">;

const FILTERS = {
  span: { label: "Period", options: { hour: "last two days" }, unset: "last hour" },
  workflow: { label: "Workflow", known: () => suggested("workflow") },
} as const;

const SPANS = { minute: { ms: 60_000, count: 60 }, hour: { ms: 3_600_000, count: 48 } } as const;

/** Maximum number of workflows that are shown. The filter can show other workflows. */
const MOST_SHOWN = 8;

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((total, one) => total + one, 0);

export function Metrics() {
  const { span, workflow } = useFilters(FILTERS);
  return (
    <>
      <h1>Metrics</h1>
      <Observed what="Runs are counted">
        <FilterBar filters={FILTERS} />
        <Workflows span={span === "hour" ? "hour" : "minute"} workflow={workflow} />
      </Observed>
    </>
  );
}

function Workflows({ span, workflow }: { span: keyof typeof SPANS; workflow: string | undefined }) {
  const { data, problem } = useData(() => get("/v1/workflows/by-time", { query: { span } }), [span], ["tick"]);
  if (!data) return <Reading problem={problem} />;
  const of = Object.entries(Object.groupBy(data.items, (one) => one.workflow))
    .map(([name, periods = []]) => ({ name, periods, runs: periods.reduce((total, { ended }) => total + sum(ended), 0) }))
    .filter(({ name }) => workflow === undefined || name === workflow)
    .toSorted((one, other) => other.runs - one.runs || (one.name < other.name ? -1 : 1));
  const times = periodsTo(Date.parse(data.at), SPANS[span].ms, SPANS[span].count);
  const more = of.slice(MOST_SHOWN).map(({ name }) => name);
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      {of.length === 0 && <None workflow={workflow} />}
      {of.slice(0, MOST_SHOWN).map(({ name, periods }) => (
        <OfWorkflow key={`${span} ${name}`} name={name} periods={periods} times={times} labelOf={labelOf(span)} />
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

/** Formats the label of a period, such as `14:05` for a minute and `11-27 14:00` for an hour. */
const labelOf = (span: keyof typeof SPANS) => (at: number) => exact(at).slice(span === "hour" ? 5 : 11, 16);

const ORDER = ["complete", "terminated", "errored"];
const rank = (status: string) => (ORDER.indexOf(status) + ORDER.length) % ORDER.length;

interface WorkflowProps {
  name: string;
  periods: readonly Period[];
  times: readonly number[];
  labelOf: (at: number) => string;
}

function OfWorkflow({ name, periods, ...window }: WorkflowProps) {
  const known = new Map(periods.map((one) => [Date.parse(one.at), one]));
  const slots = window.times.map((at) => known.get(at));
  const statuses = [...new Set(periods.flatMap(({ ended }) => Object.keys(ended)))].sort((one, other) => rank(one) - rank(other));
  return (
    <section aria-label={name}>
      <h2>
        <Link to={hrefOf("catalog", `workflow ${name}`)}>{name}</Link>
      </h2>
      <Charts
        {...window}
        table={`${name} over time`}
        charts={[
          {
            ...{ title: "Ended runs", label: `Ended runs of ${name}`, none: "no ended run" },
            series: statuses.map((status) => ({ name: status, values: slots.map((one) => one?.ended[status]) })),
          },
          {
            ...{ title: "Step duration", label: `Step durations of ${name}`, none: "no step attempt", says: seconds, isCumulative: true },
            series: [
              { name: "p50", values: slots.map((one) => one?.step_p50_seconds) },
              { name: "p99", values: slots.map((one) => one?.step_p99_seconds) },
              { name: "attempts", values: slots.map((one) => one?.attempts), isListed: true },
            ],
          },
        ]}
      />
    </section>
  );
}
