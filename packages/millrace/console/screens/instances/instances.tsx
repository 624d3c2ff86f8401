import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { get, type Item } from "../../data/api.ts";
import { useCell } from "../../data/cell.ts";
import { clock } from "../../data/clock.ts";
import { may } from "../../data/session.ts";
import { useCause, useData, useList } from "../../data/use-data.ts";
import { FilterBar, SINCE, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { ActButtons, useActs } from "../../parts/act.tsx";
import { CauseOf, Empty, LinkTo, NothingSent } from "../../parts/page.tsx";
import { InstanceStatus, Status, StatusNotes } from "../../parts/status.tsx";
import { type Column, TableList } from "../../parts/table.tsx";
import { Ago, duration, exact, Moment } from "../../parts/text.tsx";
import { InstancesButton } from "../actions/bulk-act.tsx";
import { actOn, DELAYED_VERBS } from "../instance/acts.tsx";
import { OVER } from "../instance/history.tsx";

type Instance = Item<"/v1/instances">;

const STATUSES = ["accepted", "queued", "running", "waiting", "paused", "in_doubt", "complete", "errored", "terminated", "dead", "skipped"];

async function workflows(): Promise<string[]> {
  const catalog = await get("/v1/catalog");
  return catalog.ok ? catalog.data.workflows.map(({ name }) => name) : [];
}

const FILTERS = {
  status: { label: "Status", options: Object.fromEntries(STATUSES.map((one) => [one, one.replaceAll("_", " ")])) },
  activity: { label: "Activity", options: { delayed: "delayed", retrying: "retrying", sleeping: "sleeping", waiting: "waiting for" } },
  workflow: { label: "Workflow", known: workflows },
  subject: { label: "Subject" },
  correlation: { label: "Job" },
  tag: { label: "Tag" },
  since: { label: "Since", options: SINCE },
  parent: { label: "Parent", isRare: true },
  cause: { label: "Cause", isRare: true, options: {}, other: "one cause" },
  overdue: { label: "Overdue", options: { true: "yes" }, isRare: true },
} as const;

const NEVER_STARTED = new Set(["dead", "skipped"]);

/**
 * The time from the acceptance of an instance to its end, or until now for an open instance. Waits, retries and earlier runs are included.
 */
function Duration({ of: { status, accepted_at, updated_at, due_at }, before = "" }: { of: Instance; before?: string }) {
  const from = Date.parse(accepted_at);
  const isOver = OVER.has(status);
  const said = useCell(clock, (now) => duration(Math.max(0, (isOver ? Date.parse(updated_at) : now) - from)));
  if (NEVER_STARTED.has(status) || (status === "accepted" && due_at !== null)) return null;
  return <span title={isOver ? `ended ${exact(updated_at)}` : "so far"}>{before + said}</span>;
}

function step({ error, retrying, sleeping, waiting_for: [wait], step }: Instance) {
  if (error) return [error.step, error.message].filter(Boolean).join(": ");
  if (retrying) return `${retrying.step}: ${retrying.error}`;
  if (wait?.child_id) return `${wait.step}, for a child`;
  if (wait) return `${wait.step}, for ${wait.event_type ?? "an answer"}${wait.subject ? ` about ${wait.subject}` : ""}`;
  return sleeping?.step ?? step ?? "";
}

function about({ id, workflow, subject, idempotency_key: key, tags }: Instance) {
  return (
    <>
      <LinkTo to={hrefOf("instances", id)} of={subject === workflow ? key : subject} />
      {tags.map((tag) => (
        <bdi key={tag} class="tag">
          {tag}
        </bdi>
      ))}
    </>
  );
}

const COLUMNS: readonly Column<Instance>[] = [
  { head: "Status", width: "168px", narrow: "112px", cell: (one) => <InstanceStatus instance={one} /> },
  { head: "Subject", width: "1.4fr", cell: about },
  { head: "Workflow", width: "1.2fr", isMinor: true, cell: (one) => one.workflow },
  { head: "Step", width: "2.4fr", isMinor: true, cell: (one) => <bdi title={step(one)}>{step(one)}</bdi> },
  { head: "Job", width: "1fr", isMinor: true, cell: (one) => <Link to={hrefOf("jobs", one.correlation_id)}>{one.correlation_id}</Link> },
  { head: "Accepted", width: "96px", narrow: "88px", isNumber: true, cell: (one) => <Ago at={one.accepted_at} /> },
  { head: "Duration", width: "88px", isNumber: true, isMinor: true, cell: (one) => <Duration of={one} /> },
];

export function Instances() {
  const filters = useFilters(FILTERS);
  const pages = useList("/v1/instances", filters, {
    about: ["instance", "skipped"],
    rowIn: ({ kind, data }) => (kind === "instance" ? (data as Instance) : undefined),
  });
  const { ask, line } = useActs(pages.again);
  const isActable = filters.activity === "delayed" && may("operate");
  const acts = (instance: Instance) => {
    const of = DELAYED_VERBS.map((verb) => ({ ...actOn(instance, verb), class: "plain" }));
    return <ActButtons ask={ask} of={of.map((act) => ({ ...act, label: `${act.verb}: ${instance.subject}` }))} />;
  };
  const columns = useMemo(() => (isActable ? delayedColumns(acts) : COLUMNS), [isActable]);
  const isFiltered = Object.keys(filters).length > 0;
  const cause = useCause("/v1/instances/causes", filters.cause ?? "");
  return (
    <>
      <h1>Instances</h1>
      {cause && <CauseOf says={`${cause.step ?? cause.code}: ${cause.message}`} facts={factsOf(cause)} of={cause} />}
      <FilterBar filters={FILTERS} />
      {!filters.cause && !filters.parent && !filters.overdue && !filters.activity && <ByStatus filters={filters} />}
      <InstancesButton filters={filters} isOffered={!filters.parent && (pages.rows?.length ?? 0) > 0} />
      {isActable && line}
      <TableList
        label="Instances"
        pages={pages}
        noun={["instance", "instances"]}
        empty={
          isFiltered ? (
            <Empty>{pages.more ? FURTHER : "No instance matches these filters. Clear shows all."}</Empty>
          ) : (
            <NothingSent>No instance yet: each command starts one.</NothingSent>
          )
        }
        columns={columns}
        below={(one) =>
          isActable ? (
            acts(one)
          ) : (
            <>
              {one.workflow} <Duration of={one} before="· " />
              <StatusNotes instance={one} />
            </>
          )
        }
        hrefOf={({ id }) => hrefOf("instances", id)}
      />
    </>
  );
}

/** The columns of delayed commands. A narrow window shows the actions below each row. */
function delayedColumns(acts: (instance: Instance) => ComponentChildren): Column<Instance>[] {
  return [
    ...COLUMNS.filter(({ head }) => !["Step", "Duration", "Status", "Accepted"].includes(head)),
    { head: "Due", width: "232px", isNumber: true, cell: ({ due_at }) => due_at && <Moment at={due_at} /> },
    { head: "Action", width: "224px", isMinor: true, cell: acts },
  ];
}

/** Statuses that are shown even if no instance has the status. */
const USUAL = new Set(["running", "waiting", "in_doubt", "errored", "complete"]);

/**
 * The number of instances for each status, with all filters except the status filter. Each number is a link that sets or removes the status
 * filter.
 */
function ByStatus({ filters }: { filters: Readonly<Record<string, string | undefined>> }) {
  const { workflow, subject, correlation, tag, since, status: current } = filters;
  const query = { workflow, subject, correlation, tag, since };
  const { data } = useData(() => get("/v1/instances/counts", { query: query as object }), [JSON.stringify(query)], ["instance", "skipped"]);
  const found = data?.items.filter(({ count }) => count > 0) ?? [];
  if (!data || (found.length === 0 && !current)) return null;
  const to = (status: string | undefined) => hrefOf("instances", { ...query, status });
  return (
    <ul class="counts strip" aria-label="Counts">
      <li>
        <Link to={to(undefined)} aria-current={current ? undefined : "true"}>
          All
        </Link>
      </li>
      {data.items
        .filter(({ status, count }) => count > 0 || USUAL.has(status) || status === current)
        .map(({ status, count, more }) => (
          <li key={status}>
            <Link to={to(status === current ? undefined : status)} aria-current={status === current ? "true" : undefined}>
              <Status word={status} tone={count === 0 ? "quiet" : undefined} />{" "}
              <strong>
                {count.toLocaleString()}
                {more && "+"}
              </strong>
            </Link>
          </li>
        ))}
    </ul>
  );
}

type Cause = Item<"/v1/instances/causes">;

const factsOf = ({ count, workflow, code }: Cause) => [`${count.toLocaleString()} errored`, workflow, code.replaceAll("_", " ")];

const FURTHER = "None of the newest 50,000 instances matches these filters. Older instances exist.";
