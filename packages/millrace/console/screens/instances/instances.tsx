import { get, type Item } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { usePages } from "../../data/use-pages.ts";
import { FilterBar, SINCE, sinceOf, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty } from "../../parts/empty.tsx";
import { List } from "../../parts/list.tsx";
import { InstanceStatus } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { InstancesButton } from "../actions/bulk-button.tsx";

type Instance = Item<"/v1/instances">;

const STATUSES = ["accepted", "queued", "running", "waiting", "paused", "in_doubt", "complete", "errored", "terminated", "dead", "skipped"];

async function workflows(): Promise<string[]> {
  const catalog = await get("/v1/catalog");
  return catalog.ok ? catalog.data.workflows.map(({ name }) => name) : [];
}

const FILTERS = {
  status: { label: "Status", options: Object.fromEntries(STATUSES.map((one) => [one, one.replaceAll("_", " ")])) },
  standing: { label: "Activity", options: { delayed: "delayed", retrying: "retrying", sleeping: "sleeping", waiting: "waiting for" } },
  workflow: { label: "Workflow", known: workflows },
  subject: { label: "Subject" },
  correlation: { label: "Job" },
  since: { label: "Since", options: SINCE },
  cause: { label: "Cause", isRare: true, options: {} },
  overdue: { label: "Overdue", options: { true: "yes" }, isRare: true },
} as const;

function step({ error, retrying, sleeping, waiting_for: [wait], step }: Instance) {
  if (error) return [error.step, error.message].filter(Boolean).join(": ");
  if (retrying) return `${retrying.step}: ${retrying.error}`;
  if (wait) return `${wait.step}, for ${wait.event_type ?? "an answer"}${wait.subject ? ` about ${wait.subject}` : ""}`;
  return sleeping?.step ?? step ?? "";
}

const COLUMNS: readonly Column<Instance>[] = [
  { head: "Status", width: "168px", narrow: "112px", cell: (one) => <InstanceStatus instance={one} /> },
  { head: "Workflow", width: "1.2fr", cell: (one) => <Link to={hrefOf("instances", one.id)}>{one.workflow}</Link> },
  { head: "Subject", width: "1.4fr", cell: (one) => <bdi>{one.subject}</bdi> },
  { head: "Step", width: "2.4fr", isMinor: true, cell: (one) => <bdi title={step(one)}>{step(one)}</bdi> },
  { head: "Job", width: "1fr", isMinor: true, cell: (one) => <Link to={hrefOf("jobs", one.correlation_id)}>{one.correlation_id}</Link> },
  { head: "Accepted", width: "96px", narrow: "88px", isNumber: true, cell: (one) => <Ago at={one.accepted_at} /> },
  { head: "Changed", width: "96px", isNumber: true, isMinor: true, cell: (one) => <Ago at={one.updated_at} /> },
];

export function Instances() {
  const { since, ...filters } = useFilters(FILTERS);
  const pages = usePages(
    (cursor) => get("/v1/instances", { query: { ...(filters as object), since: sinceOf(since), cursor, limit: "50" } }),
    [JSON.stringify(filters), since],
    {
      nameOf: ({ id }) => id,
      isAbout: ({ kind }) => kind === "instance" || kind === "skipped",
      rowIn: ({ kind, data }) => (kind === "instance" ? (data as Instance) : undefined),
    },
  );
  const isFiltered = since !== undefined || Object.keys(filters).length > 0;
  const cause = useCause(filters.cause);
  // The filter shows a cause's message instead of its id.
  const shown = { ...FILTERS, cause: { ...FILTERS.cause, options: filters.cause ? { [filters.cause]: cause ? said(cause) : "one" } : {} } };
  return (
    <>
      <h1>Instances</h1>
      {cause && <OfCause cause={cause} />}
      <FilterBar filters={shown} />
      <InstancesButton filters={{ since, ...filters }} isOffered={(pages.rows?.length ?? 0) > 0} />
      <List pages={pages} noun={["instance", "instances"]} empty={isFiltered ? <Filtered isShort={pages.more !== undefined} /> : <None />}>
        {(rows) => (
          <Table label="Instances" rows={rows} columns={COLUMNS} nameOf={({ id }) => id} hrefOf={({ id }) => hrefOf("instances", id)} />
        )}
      </List>
    </>
  );
}

type Cause = Item<"/v1/instances/causes">;

const said = ({ step, code, message }: Cause) => `${step ?? code}: ${message}`;

/** The cause of failures that filters the list. Undefined without this filter, and once the cause has no failures left. */
function useCause(id: string | undefined): Cause | undefined {
  const { data } = useData(
    async () =>
      id ? get("/v1/instances/causes", { query: { limit: "200" } }) : { ok: true as const, data: { items: [], next_cursor: null } },
    [id],
    ({ kind }) => kind === "instance" || kind === "skipped",
  );
  return data?.items.find((one) => one.id === id);
}

function OfCause({ cause }: { cause: Cause }) {
  const { count, workflow, code, first_at: first, last_at: last } = cause;
  return (
    <section aria-label="The cause">
      <p class="cause" data-tone="red">
        <bdi>{said(cause)}</bdi>
      </p>
      <p class="quiet">
        {count.toLocaleString()} errored · {workflow} · {code} · first <Ago at={first} />, last <Ago at={last} />.
        {/#|"…"/.test(cause.message) && " # and “…” replace parts that differ."}
      </p>
    </section>
  );
}

function Filtered({ isShort }: { isShort: boolean }) {
  return (
    <Empty>
      {isShort
        ? "None of the newest 50,000 instances matches these filters. Older instances exist."
        : "No instance matches these filters. Clear shows all."}
    </Empty>
  );
}

function None() {
  return (
    <Empty
      command={`curl ${location.origin}/v1/commands -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '{"type":"…","payload":{…}}'`}
    >
      No instance yet: each command starts one. <Link to={hrefOf("send")}>Send</Link> one from here, or from a terminal:
    </Empty>
  );
}
