import type { ComponentChildren } from "preact";
import { get, type Item } from "../../data/api.ts";
import { opened, type Schema, wordsOf } from "../../data/schema.ts";
import { useCatalog, useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { policyOf } from "../../parts/alert-words.ts";
import { Folded } from "../../parts/json.tsx";
import { Empty, Facts, Lines, Loaded, Pairs, Reading, Section } from "../../parts/page.tsx";
import { PauseMark, Pausing } from "../../parts/pausing.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Quiet, seconds } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { graphOf, Picture, partsOfName, type Catalog as Whole } from "./picture.tsx";
import "./catalog.css";

type Message = Whole["messages"][number];
type Workflow = Whole["workflows"][number];
type Queue = Whole["queues"][number];

function LinkOf({ node }: { node: string }) {
  return <Link to={hrefOf("catalog", node)}>{partsOfName(node)[1]}</Link>;
}

const nodeOf = ({ kind, type }: Pick<Message, "kind" | "type">) => `${kind} ${type}`;

export function Catalog() {
  const catalog = useCatalog();
  return (
    <>
      <h1>Catalog</h1>
      <Loaded of={catalog}>
        {(data) =>
          data.workflows.length === 0 ? (
            <Empty command="defineConsumer({ queue, starts: [yourWorkflow] })">No workflow is deployed: no consumer starts one.</Empty>
          ) : (
            <All catalog={data} />
          )
        }
      </Loaded>
    </>
  );
}

function All({ catalog }: { catalog: Whole }) {
  const { data: states } = useData(() => get("/v1/workflows", {}), [], ["action"]);
  const { workflows, messages, queues } = catalog;
  return (
    <>
      <Picture catalog={catalog} />
      {[
        tableOf("Workflows", workflows, workflowColumns(states?.items ?? []), ({ name }) => `workflow ${name}`),
        tableOf("Messages", messages, messageColumns(catalog), nodeOf),
        tableOf("Queues and lanes", queues, QUEUES, ({ name }) => `queue ${name}`),
      ]}
    </>
  );
}

function tableOf<Row extends object>(label: string, rows: readonly Row[], columns: readonly Column<Row>[], nameOf: (row: Row) => string) {
  return (
    <Section key={label} title={label}>
      <Table {...{ label, rows, columns, nameOf }} hrefOf={(row) => hrefOf("catalog", nameOf(row))} />
    </Section>
  );
}

const named = (things: readonly { name: string }[] | readonly { type: string }[], none: string) =>
  things.map((one) => ("name" in one ? one.name : one.type)).join(", ") || <Quiet of={none} />;

const workflowColumns = (states: readonly Item<"/v1/workflows">[]): readonly Column<Workflow>[] => [
  {
    ...{ head: "Workflow", width: "1.2fr" },
    cell: ({ name }) => (
      <>
        <LinkOf node={`workflow ${name}`} /> <PauseMark paused={states.find((one) => one.name === name)?.paused ?? null} />
      </>
    ),
  },
  { head: "Started by", width: "1.4fr", cell: ({ on }) => <LinkOf node={nodeOf(on)} /> },
  { head: "Observed steps", width: "2fr", isMinor: true, cell: ({ steps }) => named(steps, "none yet") },
  { head: "Emits", width: "1.6fr", isMinor: true, cell: ({ emits }) => named(emits, "not seen yet") },
];

const messageColumns = (catalog: Whole): readonly Column<Message>[] => [
  { head: "Message", width: "1.2fr", cell: (one) => <LinkOf node={nodeOf(one)} /> },
  { of: "kind", width: "96px", narrow: "80px" },
  {
    head: "Consumers",
    width: "1.8fr",
    isMinor: true,
    cell: (one) => [...consumersOf(one, catalog).keys()].join(", ") || <Quiet of="no consumer" />,
  },
  { head: "Queue", width: "1fr", isMinor: true, cell: ({ queue }) => <LinkOf node={`queue ${queue}`} /> },
  {
    head: "Open to callers",
    width: "1fr",
    narrow: "104px",
    cell: ({ access }) => (access?.scope ? `with ${access.scope}` : <Quiet of="no" />),
  },
];

const QUEUES: readonly Column<Queue>[] = [
  { head: "Queue", width: "1.4fr", cell: ({ name }) => <LinkOf node={`queue ${name}`} /> },
  { head: "Messages", width: "1fr", cell: ({ kind, is_lane }) => (is_lane ? `${kind}, in order` : kind) },
  { head: "Retries", width: "136px", cell: (one) => policyOf(one).Retries },
  { head: "Batch", width: "96px", isMinor: true, cell: (one) => policyOf(one).Batch },
  { head: "Concurrency", width: "96px", isMinor: true, cell: (one) => policyOf(one).Concurrency },
];

const WORDS = { send: "a command", signal: "waiting instances", project: "a projection", call: "a call of app code" } as const;

/** The consumers of a message, by their titles, with the node of each. A consumer that is not in the catalog has no node. */
function consumersOf({ kind, type, targets }: Message, { workflows }: Whole): Map<string, string | undefined> {
  const started = workflows.filter(({ on }) => on.kind === kind && on.type === type).map(({ name }) => [name, `workflow ${name}`] as const);
  const others = targets.flatMap((one) =>
    one.do === "start" ? [] : [[one.type ?? WORDS[one.do], one.type === null ? undefined : `command ${one.type}`] as const],
  );
  // The workflow is kept if a workflow and a command have the same name.
  return new Map([...started, ...others, ...started]);
}

/** For each effect class, the engine's guarantee in the case that the outcome of an attempt is unknown. */
const CLASSES = {
  commit: "rows and messages in one atomic write: exactly once",
  keyed: "the upstream deduplicates by key: a repeat has no second effect",
  natural: "idempotent by nature: it is repeated",
  lookup: "before a repeat, the upstream is asked whether it happened",
  once: "never repeated automatically: an operator decides",
} as const;

export function CatalogItem({ param }: ScreenProps) {
  const { data, problem } = useCatalog();
  if (!data) return <Reading problem={problem} />;
  const [kind, name] = partsOfName(param);
  const workflow = data.workflows.find((one) => kind === "workflow" && one.name === name);
  const message = data.messages.find((one) => one.kind === kind && one.type === name);
  const queue = data.queues.find((one) => kind === "queue" && one.name === name);
  return (
    <>
      <h1>
        {(workflow || message || queue) && <Quiet of={queue?.is_lane ? "lane" : kind} />} {name || param}
      </h1>
      {workflow && <OfWorkflow workflow={workflow} seen={data.seen_instances} />}
      {message && <OfMessage message={message} catalog={data} />}
      {queue && <OfQueue queue={queue} catalog={data} />}
      {!workflow && !message && !queue && (
        <Empty>
          The deployed catalog has no {kind || "thing"} of this name{kind === "event" && ": it is emitted, but nothing consumes it"}.{" "}
          <Link to={hrefOf("catalog")}>The whole catalog</Link>
        </Empty>
      )}
    </>
  );
}

function OfWorkflow({ workflow, seen }: { workflow: Workflow; seen: number }) {
  const { name, on, steps, step_mode: mode, emits, deadline_seconds: deadline } = workflow;
  return (
    <>
      <Facts
        of={[
          [`started by the ${on.kind} `, <LinkOf key="on" node={nodeOf(on)} />],
          mode === "inline" && "its steps run inline",
          deadline === null ? "no deadline" : `overdue after ${seconds(deadline)}`,
          <Link to={hrefOf("instances", { workflow: name })}>Its instances</Link>,
          on.kind === "command" && <Link to={hrefOf("send", { message: nodeOf(on) })}>Send one</Link>,
        ]}
      />
      <Pausing kind="workflow" name={name} workflows={[name]} />
      <h2>Steps</h2>
      {steps.length === 0 ? (
        <Empty>None of the newest {seen} instances ran this workflow. Its steps are known only after a run.</Empty>
      ) : (
        <>
          <Lines
            columns="1fr 72px 2fr"
            of={steps.map((one) => [one.name, <strong key="class">{one.class}</strong>, <Quiet key="means" of={CLASSES[one.class]} />])}
          />
          <p class="quiet">
            Steps with an effect, as observed in the newest {seen} instances, without reads, sleeps and waits. The page of an instance lists
            all of its steps.
          </p>
        </>
      )}
      <Names title="Emits" of={emits.map(messageLine)} none="nothing observed" />
    </>
  );
}

function OfMessage({ message, catalog }: { message: Message; catalog: Whole }) {
  const { version, queue, access, payload_schema } = message;
  const schema = payload_schema as Schema;
  const fields = Object.entries(opened(schema).properties ?? {});
  const sources = graphOf(catalog).edges.filter(({ to }) => to === nodeOf(message));
  return (
    <>
      <Facts
        of={[
          `version ${version}`,
          ["on ", <LinkOf key="queue" node={`queue ${queue}`} />],
          access === null
            ? "only this deployment emits it"
            : access.scope === null
              ? `no token may send it directly: ${access.route}`
              : `${access.route}, with ${access.scope}`,
          access?.scope && <Link to={hrefOf("send", { message: nodeOf(message) })}>Send it</Link>,
        ]}
      />
      <Names
        title="Consumers"
        of={[...consumersOf(message, catalog)].map(([title, node]) => (node ? <LinkOf node={node} /> : title))}
        none="none: no workflow or route consumes it yet"
      />
      <Names
        title="Comes from"
        of={[
          access?.scope && `outside, by ${access.route}`,
          ...sources.map(({ from, isSeen }) => [<LinkOf key="from" node={from} />, isSeen && [" ", <Quiet key="is" of="observed" />]]),
        ]}
        none="nothing observed lately"
      />
      <h2>Payload</h2>
      <Lines
        columns="1fr 2fr"
        of={fields.map(([name, one]) => [
          <code key="name">{name}</code>,
          <Quiet key="words" of={wordsOf(one, schema.required?.includes(name) ?? false)} />,
        ])}
      />
      <Folded title="As JSON Schema" value={payload_schema} label="JSON Schema" />
    </>
  );
}

const POLICY: Readonly<Record<string, string>> = {
  Retries: "number of retries; first and longest delay",
  Batch: "messages at most; longest wait for them",
  Concurrency: "batches at the same time; for a lane, instances of one key",
  Priorities: "commands may set a priority",
};

function OfQueue({ queue, catalog }: { queue: Queue; catalog: Whole }) {
  const { name, is_lane, kind } = queue;
  const messages = catalog.messages.filter((one) => one.queue === name);
  const started = catalog.workflows.filter(({ on }) => messages.some((one) => nodeOf(one) === nodeOf(on)));
  const policy = Object.entries(policyOf(queue)).map(([what, said]) => [what, [said, " ", <Quiet key="what" of={POLICY[what]} />]]);
  return (
    <>
      <Facts of={[is_lane ? `${kind}, one after another for each key` : kind, <Link to={hrefOf("queues")}>Health</Link>]} />
      {kind === "commands" && <Pausing kind="queue" name={name} workflows={started.map((one) => one.name)} />}
      <h2>Policy</h2>
      <Pairs of={Object.fromEntries(policy)} />
      <Names title="Messages" of={messages.map(messageLine)} none="none declared" />
    </>
  );
}

const messageLine = (one: Pick<Message, "kind" | "type">) => [
  <LinkOf key="of" node={nodeOf(one)} />,
  " ",
  <Quiet key="is" of={one.kind} />,
];

function Names({ title, of, none }: { title: string; of: readonly ComponentChildren[]; none: string }) {
  const lines = of.filter(Boolean);
  return (
    <Section title={title}>
      <ul>
        {lines.map((one, nth) => (
          <li key={nth}>{one}</li>
        ))}
        {lines.length === 0 && <li class="quiet">{none}</li>}
      </ul>
    </Section>
  );
}
