import { get, type Item } from "../../data/api.ts";
import { useCatalog, useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty, ProblemNote } from "../../parts/page.tsx";
import { PauseMark } from "../../parts/pausing.tsx";
import { policyOf } from "../../parts/policy.ts";
import { type Column, Table } from "../../parts/table.tsx";
import type { Catalog as Whole } from "./graph.ts";
import { Picture } from "./picture.tsx";
import "./catalog.css";

type Message = Whole["messages"][number];
type Workflow = Whole["workflows"][number];
type Queue = Whole["queues"][number];

export function Catalog() {
  const { data, problem } = useCatalog();
  return (
    <>
      <h1>Catalog</h1>
      {problem && <ProblemNote problem={problem} />}
      {data && data.workflows.length === 0 ? (
        <Empty command="defineConsumer({ queue, starts: [yourWorkflow] })">No workflow is deployed: no consumer starts one.</Empty>
      ) : (
        data && <All catalog={data} />
      )}
    </>
  );
}

function All({ catalog }: { catalog: Whole }) {
  const { data: states } = useData(() => get("/v1/workflows", {}), [], ["action"]);
  return (
    <>
      <Picture catalog={catalog} />
      <h2>Workflows</h2>
      <Table
        label="Workflows"
        rows={catalog.workflows}
        columns={workflowColumns(states?.items ?? [])}
        nameOf={({ name }) => name}
        hrefOf={({ name }) => hrefOf("catalog", `workflow ${name}`)}
      />
      <h2>Messages</h2>
      <Table
        label="Messages"
        rows={catalog.messages}
        columns={messageColumns(catalog)}
        nameOf={({ kind, type }) => `${kind} ${type}`}
        hrefOf={({ kind, type }) => hrefOf("catalog", `${kind} ${type}`)}
      />
      <h2>Queues and lanes</h2>
      <Table
        label="Queues and lanes"
        rows={catalog.queues}
        columns={QUEUES}
        nameOf={({ name }) => name}
        hrefOf={({ name }) => hrefOf("catalog", `queue ${name}`)}
      />
    </>
  );
}

const workflowColumns = (states: readonly Item<"/v1/workflows">[]): readonly Column<Workflow>[] => [
  {
    head: "Workflow",
    width: "1.2fr",
    cell: ({ name }) => (
      <>
        <Link to={hrefOf("catalog", `workflow ${name}`)}>{name}</Link>{" "}
        <PauseMark paused={states.find((one) => one.name === name)?.paused ?? null} />
      </>
    ),
  },
  { head: "Started by", width: "1.4fr", cell: ({ on }) => <MessageLink {...on} /> },
  {
    head: "Observed steps",
    width: "2fr",
    isMinor: true,
    cell: ({ steps }) => steps.map(({ name }) => name).join(", ") || <span class="quiet">none yet</span>,
  },
  {
    head: "Emits",
    width: "1.6fr",
    isMinor: true,
    cell: ({ emits }) => emits.map(({ type }) => type).join(", ") || <span class="quiet">not seen yet</span>,
  },
];

function messageColumns({ workflows }: Whole): readonly Column<Message>[] {
  return [
    { head: "Message", width: "1.2fr", cell: (one) => <MessageLink {...one} /> },
    { head: "Kind", width: "96px", narrow: "80px", cell: ({ kind }) => kind },
    {
      head: "Consumers",
      width: "1.8fr",
      isMinor: true,
      cell: (one) => ledTo(one, workflows).join(", ") || <span class="quiet">no consumer</span>,
    },
    { head: "Queue", width: "1fr", isMinor: true, cell: ({ queue }) => <Link to={hrefOf("catalog", `queue ${queue}`)}>{queue}</Link> },
    {
      head: "Open to callers",
      width: "1fr",
      narrow: "104px",
      cell: ({ door }) => (door?.scope ? `with ${door.scope}` : <span class="quiet">no</span>),
    },
  ];
}

const QUEUES: readonly Column<Queue>[] = [
  { head: "Queue", width: "1.4fr", cell: ({ name }) => <Link to={hrefOf("catalog", `queue ${name}`)}>{name}</Link> },
  { head: "Messages", width: "1fr", cell: ({ carries, is_lane }) => (is_lane ? `${carries}, in order` : carries) },
  { head: "Retries", width: "136px", cell: (one) => policyOf(one).Retries },
  { head: "Batch", width: "96px", isMinor: true, cell: (one) => policyOf(one).Batch },
  { head: "Concurrency", width: "96px", isMinor: true, cell: (one) => policyOf(one).Concurrency },
];

export function ledTo({ kind, type, follows }: Message, workflows: readonly Workflow[]): string[] {
  const started = workflows.filter(({ on }) => on.kind === kind && on.type === type).map(({ name }) => name);
  const others = follows.flatMap((one) => (one.do === "start" ? [] : [one.type ?? WORDS[one.do]]));
  return [...new Set([...started, ...others])];
}

const WORDS = {
  start: "a workflow",
  send: "a command",
  signal: "waiting instances",
  project: "a projection",
  call: "a call of app code",
} as const;

export function MessageLink({ kind, type }: Pick<Message, "kind" | "type">) {
  return <Link to={hrefOf("catalog", `${kind} ${type}`)}>{type}</Link>;
}
