import { get, type Item } from "../../data/api.ts";
import { useCell } from "../../data/cell.ts";
import { clock } from "../../data/clock.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { filtersOf, ONE_CAUSE, RARE, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { ActButtons } from "../../parts/act.tsx";
import { CauseOf } from "../../parts/cause.tsx";
import { List } from "../../parts/list.tsx";
import { LinkTo, NothingSent } from "../../parts/page.tsx";
import { InstanceStatus, Status, StatusNotes } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { duration, exact, Moment } from "../../parts/text.tsx";
import { InstancesButton } from "../actions/bulk-act.tsx";
import { actOn, DELAYED_VERBS } from "../instance/acts.tsx";
import { OVER } from "../instance/history.tsx";

type Instance = Item<"/v1/instances">;

const FILTERS = filtersOf("/v1/instances", {
  status: {},
  activity: { says: { waiting: "waiting for" } },
  workflow: {},
  subject: {},
  correlation: { label: "Job" },
  ...{ version: RARE, parent: RARE, overdue: RARE, cause: ONE_CAUSE },
});

/** The filters of `GET /v1/instances/counts`, and the status, which each count sets. */
const COUNTED = new Set(["status", "workflow", "subject", "correlation", "tag", "since"]);

const NEVER_STARTED = new Set(["dead", "skipped"]);

/** The time from the acceptance of an instance to its end, or until now. It includes waits, retries and earlier runs. */
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
  { of: "status", width: "168px", narrow: "112px", cell: (one) => <InstanceStatus instance={one} /> },
  { of: "subject", width: "1.4fr", cell: about },
  { of: "workflow", width: "1.2fr", isMinor: true },
  { of: "step", width: "2.4fr", isMinor: true, cell: (one) => <bdi title={step(one)}>{step(one)}</bdi> },
  { of: "correlation_id", head: "Job", isMinor: true },
  { of: "accepted_at" },
  { head: "Duration", width: "88px", isNumber: true, isMinor: true, cell: (one) => <Duration of={one} /> },
];

/** The columns of delayed commands. A narrow window shows the actions below each row. */
const DELAYED: readonly Column<Instance>[] = [
  ...COLUMNS.filter(({ of = "" }) => ["subject", "workflow", "correlation_id"].includes(of)),
  { head: "Due", width: "232px", isNumber: true, cell: ({ due_at }) => due_at && <Moment at={due_at} /> },
  { head: "Action", width: "224px", isMinor: true, cell: actsOn },
];

function actsOn(instance: Instance) {
  const of = DELAYED_VERBS.map((verb) => ({ ...actOn(instance, verb), about: instance.subject, class: "plain" }));
  return <ActButtons of={of.map((act) => ({ ...act, label: `${act.verb}: ${instance.subject}` }))} />;
}

export function Instances() {
  const filters = useFilters(FILTERS);
  const isActable = filters.activity === "delayed" && may("operate");
  const isCounted = Object.keys(filters).every((name) => COUNTED.has(name));
  return (
    <>
      <h1>Instances</h1>
      <CauseOf at="/v1/instances/causes" id={filters.cause} />
      <List
        {...{ at: "/v1/instances", filters: FILTERS, about: ["instance", "skipped"] }}
        rowIn={({ kind, data }) => (kind === "instance" ? (data as Instance) : undefined)}
        head={({ pages: { rows = [] } }) => (
          <>
            {isCounted && <ByStatus filters={filters} />}
            {rows.length > 0 && <InstancesButton filters={filters} />}
          </>
        )}
        noun="instance"
        empty={<NothingSent>No instance yet: each command starts one.</NothingSent>}
        further="None of the newest 50,000 instances matches these filters. Older instances exist."
        columns={isActable ? DELAYED : COLUMNS}
        below={(one) => (isActable ? actsOn(one) : <Below of={one} />)}
        hrefOf={({ id }) => hrefOf("instances", id)}
      />
    </>
  );
}

function Below({ of }: { of: Instance }) {
  return (
    <>
      {of.workflow} <Duration of={of} before="· " />
      <StatusNotes instance={of} />
    </>
  );
}

/** Statuses that are shown even if no instance has the status. */
const USUAL = new Set(["running", "waiting", "in_doubt", "errored", "complete"]);

/** The number of instances for each status under the other filters. Each number links to the list with this status. */
function ByStatus({ filters }: { filters: Readonly<Record<string, string | undefined>> }) {
  const { status: current, ...query } = filters;
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
