import { get, type Item } from "../data/api.ts";
import { may } from "../data/session.ts";
import { useData } from "../data/use-data.ts";
import { hrefOf, Link } from "../frame/router.tsx";
import { Acts, Asking, useActs } from "./act.tsx";
import { Status } from "./status.tsx";
import { Ago, Text } from "./text.tsx";

type Paused = NonNullable<Item<"/v1/workflows">["paused"]>;

interface Work {
  kind: "workflow" | "queue";
  name: string;
  /** The workflow itself, or the workflows that the queue starts. */
  workflows: readonly string[];
}

/** A mark for a paused workflow or queue. Its tooltip shows the actor and the reason. */
export function PauseMark({ paused }: { paused: Paused | null }) {
  if (!paused) return null;
  const { by, reason, queue, all_tenants } = paused;
  const whose = all_tenants ? ", for all tenants" : "";
  return (
    <span title={`Paused by ${by}${whose}${queue === null ? "" : ` (queue ${queue})`}: ${reason}`}>
      <Status word="paused" />
    </span>
  );
}

/** Reads the state of each workflow, and the state of each queue that the token may read. */
async function readStates() {
  const [workflows, queues] = await Promise.all([get("/v1/workflows"), may("observe") ? get("/v1/queues") : undefined]);
  if (!workflows.ok) return workflows;
  return { ok: true as const, data: { workflows: workflows.data.items, queues: queues?.ok ? queues.data.items : [] } };
}

/** Shows whether a workflow or a queue is paused, by whom and why, and the action that pauses or resumes it. */
export function Pausing({ kind, name, workflows }: Work) {
  const { data, again } = useData(readStates, [], ["instance", "skipped", "action"]);
  const { ask, line } = useActs(again);
  if (!data) return line;
  const workflow = data.workflows.find((one) => one.name === name);
  const paused =
    kind === "workflow"
      ? workflow?.paused
      : (data.queues.find(({ queue }) => queue === name) ?? data.workflows.find((one) => one.paused?.queue === name))?.paused;
  // The workflow of a paused queue can also be paused. The resume of the queue does not resume the workflow.
  const own = paused && (kind === "queue" || paused.queue === null) ? paused : undefined;
  const act = own
    ? { verb: "Resume", class: "main", at: `/v1/${kind}s/:name/resume` as const, given: { all_tenants: own.all_tenants } }
    : { verb: "Pause", at: `/v1/${kind}s/:name/pause` as const, fill: { running: "continue" } };
  const breaker = kind === "workflow" && workflow?.breaker;
  const held = data.workflows.filter((one) => workflows.includes(one.name));
  const waiting = held.reduce((sum, { counts }) => sum + (counts.accepted ?? 0) + (counts.queued ?? 0), 0);
  return (
    <Asking.Provider value={ask}>
      {paused && <Why paused={paused} waiting={waiting} />}
      {breaker && (
        <p class="quiet">
          The workflow is paused after {breaker.failures} failures of one cause within {breaker.within_seconds.toLocaleString()} s.
        </p>
      )}
      <Acts of={[{ ...act, about: `${kind} ${name}`, param: { name } }]} />
      {line}
    </Asking.Provider>
  );
}

function Why({ paused: { by, reason, since, cause, queue, all_tenants }, waiting }: { paused: Paused; waiting: number }) {
  const waits = `${waiting.toLocaleString()} ${waiting === 1 ? "instance waits" : "instances wait"}.`;
  return (
    <div class="cause" data-tone="grey">
      <p>
        {queue === null ? "Paused" : <>Its queue {<Link to={hrefOf("catalog", `queue ${queue}`)}>{queue}</Link>} is paused</>}
        {all_tenants && " for all tenants"} by <bdi>{by}</bdi> <Ago at={since} />
        <Text before=": " of={reason} />
      </p>
      <p class="beside quiet">
        Commands are accepted, and start after the resume. {waits}{" "}
        {cause && <Link to={hrefOf("instances", { status: "errored", cause })}>The failures that paused it</Link>}
      </p>
    </div>
  );
}
