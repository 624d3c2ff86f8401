import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useExplained } from "../../data/explained.ts";
import { useData, useStream } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Acts, Asking, useActs } from "../../parts/act.tsx";
import { replacementOf } from "../../parts/answer.tsx";
import { Json, Reveal } from "../../parts/json.tsx";
import { Facts, LinkTo, Lost, type Opened, ProblemNote, Records, Section } from "../../parts/page.tsx";
import { InstanceStatus, Status } from "../../parts/status.tsx";
import { Ago, duration, Id, InstanceName, Moment, Quiet } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { actOn, InstanceActs } from "./acts.tsx";
import { Cause, OpenDoubt, OpenQuestion } from "./cause.tsx";
import type { Detail, Effect, Message, Run, Step, Whole } from "./history.tsx";
import { History, hasUndoFailed, MOST_CHILDREN, OVER, runsOf, UNDO_STEP, wholeInstance } from "./history.tsx";
import "./instance.css";
import { labelOf, tookOf } from "./step.ts";
import { ShownProgress, Timeline } from "./timeline.tsx";

export function Instance({ param: id }: ScreenProps) {
  const [reveal, setReveal] = useState(false);
  const explained = useExplained();
  const { data, problem, again, soon } = useData(
    () => wholeInstance(id, reveal),
    [id, reveal],
    ({ kind, data }) => (kind === "instance" && data.id === id) || ((kind === "action" || kind === "doubt") && data.instance_id === id),
  );
  useStream(`/v1/instances/${encodeURIComponent(id)}/stream`, data !== undefined && !OVER.has(data.instance.status), soon);
  const { ask, say, line } = useActs(again, { id, after: RECORDED });
  // The result of an action disappears when the instance has changed since, and no longer executes steps.
  useEffect(() => {
    if (data && AT_REST.has(data.instance.status)) say("");
  }, [data?.instance.updated_at]);

  if (!data) return <Lost title="Instance" problem={problem} all={["instances", "All instances"]} />;
  const { instance, steps, effects, messages, actions, questions } = data;
  const runs = runsOf(actions, explained);
  const asking = questions.filter((one) => one.state === "pending" && instance.waiting_for.some((wait) => wait.approval_id === one.id));
  const trouble =
    instance.error?.step ?? instance.retrying?.step ?? steps.find(({ state }) => !["complete", "paused"].includes(state))?.name;
  const actsOf = (step: Step) =>
    instance.archived_at === null &&
    ["errored", "terminated"].includes(instance.status) &&
    !hasUndoFailed(instance) &&
    step.type === "do" &&
    !["complete", "paused"].includes(step.state) && (
      <Acts of={[{ ...actOn(instance, "retry", step.own?.of ?? step.name), verb: "Retry from here" }]} />
    );
  const correct = (effect: Effect) =>
    instance.archived_at === null &&
    instance.status === "errored" &&
    isGiven(effect) && <Acts of={[replacementOf({ ...effect, workflow: instance.workflow })]} />;
  return (
    <Asking.Provider value={ask}>
      <h1>
        <InstanceName {...instance} />
      </h1>
      <FactsOf whole={data} runs={runs} />
      {problem && <ProblemNote problem={problem} />}
      {asking.map((question) => (
        <OpenQuestion key={question.id} question={question} />
      ))}
      {instance.unknown_outcomes.map(({ step, effect: key, since, why, consequences }) => (
        <OpenDoubt
          key={key}
          {...{ step, since, why, consequences }}
          workflow={instance.workflow}
          effect={effects.find((one) => one.key === key)}
        />
      ))}
      <Cause instance={instance} explained={explained} />
      <InstanceActs instance={instance} />
      {line}
      <h2>{stepsOfWhich(instance, runs)}</h2>
      {!OVER.has(instance.status) && <ShownProgress instance={instance} steps={steps} />}
      {steps.length > 0 ? (
        <Timeline steps={steps} over={OVER.has(instance.status) ? instance.updated_at : null} trouble={trouble} actsOf={actsOf} />
      ) : (
        <p class="quiet">No step has started.</p>
      )}
      <History whole={data} runs={runs} />
      <div class="pair">
        <Section title="Input">
          {instance.payload_ref ? (
            <p class="quiet">Too large to show: stored as {instance.payload_ref}.</p>
          ) : (
            <Json label="Input as JSON" value={instance.payload} />
          )}
        </Section>
        <Section title="Output">
          {instance.status === "complete" && instance.result !== null ? (
            <Json label="Output as JSON" value={instance.result} />
          ) : (
            <p class="quiet">{NO_ANSWER[instance.status] ?? "No output yet: the instance has not ended."}</p>
          )}
          {instance.result_changed && <p class="quiet">{instance.result_changed}</p>}
        </Section>
      </div>
      {!reveal && <Reveal of={[instance.payload, instance.result, effects]} press={() => setReveal(true)} />}
      {effects.length > 0 && (
        <Section title="Effects">
          <Records {...THIRDS} label="Effects" of={effects.map((one) => effectOf(one, correct))} />
        </Section>
      )}
      {messages.length > 0 && (
        <Section title="Sent messages">
          <Records {...THIRDS} label="Sent messages" of={messages.map(messageOf)} />
        </Section>
      )}
      {data.children.length > 0 && <Children of={instance.id} all={data.children} />}
      <Cost cost={instance.cost} />
    </Asking.Provider>
  );
}

const RECORDED = (
  <>
    {" "}
    It is recorded under <a href="#history">History</a>
  </>
);

const NO_ANSWER: Readonly<Record<string, string>> = {
  complete: "No output: the workflow returns nothing.",
  errored: "No output: the instance failed.",
  terminated: "No output: the instance was stopped.",
  skipped: "No output: the instance was closed.",
  dead: "No output: the instance never started.",
};

/** Statuses in which an instance executes no step: the instance has ended, or waits for an operator, an event or a time. */
const AT_REST: ReadonlySet<string> = new Set([...OVER, "in_doubt", "paused", "waiting"]);

/** The heading of the steps. An undo is a separate run, shown after the run that it undoes. */
function stepsOfWhich({ undo }: Detail, runs: readonly Run[]): string {
  const number = runs.at(-1)?.number;
  if (number === undefined) return "Steps";
  return undo === null ? `Steps of run ${number}` : "Steps, including the undo";
}

function FactsOf({ whole: { instance, steps }, runs }: { whole: Whole; runs: readonly Run[] }) {
  const { id, accepted_at: accepted, correlation_id: job, status, due_at: begins, must_end_by: due, parent } = instance;
  const { took, waited } = tookOf(instance, steps, runs);
  const run = runs.at(-1)?.number;
  const waits = waited >= WORTH_SAYING_MS ? `, ${duration(waited)} of it waiting` : "";
  return (
    <Facts
      of={[
        <InstanceStatus instance={instance} />,
        <Ago label="accepted" at={accepted} />,
        OVER.has(status) && status !== "skipped" && `${run === undefined ? "took" : `run ${run} took`} ${duration(took)}${waits}`,
        `${steps.length} ${steps.length === 1 ? "step" : "steps"} · $${instance.cost.usd.toPrecision(2)}`,
        ["job ", <LinkTo key="job" to={hrefOf("jobs", job)} of={job} />],
        parent && ["child of ", <LinkTo key="parent" to={hrefOf("instances", parent.id)} of={parent.id} />],
        ...instance.tags.map((tag) => (
          <Link key={tag} class="tag" to={hrefOf("instances", { tag })}>
            {tag}
          </Link>
        )),
        instance.version > 1 && `version ${instance.version}`,
        ["key ", <Id key="key" id={instance.idempotency_key} />],
        ["id ", <Id key="id" id={id} />],
        status === "accepted" && begins && ["due ", <Moment key="due" at={begins} />],
        due && ["must end by ", <Moment key="end" at={due} />],
        instance.archived_at === null ? (
          <Platform instance={instance} />
        ) : (
          ["archived ", <Moment key="archived" at={instance.archived_at} />]
        ),
      ]}
    />
  );
}

const WORDS: Readonly<Record<string, string>> = { superseded: "undone, or run again" };

const THIRDS = { columns: "minmax(0, 1.2fr) 160px minmax(0, 2fr)", minor: 2 } as const;

const isGiven = ({ step, state, skipped }: Effect) =>
  !step.startsWith(UNDO_STEP) && (state === "confirmed" || (state === "done" && skipped));

function effectOf(effect: Effect, correct: (effect: Effect) => ComponentChildren): Opened {
  const { key, step, state, generation, error, updated_at: at, output, output_ref: ref, input } = effect;
  return {
    key,
    cells: [
      <bdi key="label">{labelOf(effect)}</bdi>,
      <Status key="status" word={effect.skipped ? "skipped" : (WORDS[state] ?? state)} />,
      <Quiet key="note" of={[effect.class, generation > 1 && `, run ${generation} times`, " · ", <Ago key="at" at={at} />]} />,
    ],
    details: (
      <>
        {error && <bdi class="said">{error.message}</bdi>}
        {input !== null && <Json label={`Input of ${step}`} value={input} />}
        {ref ? <p class="quiet">The output is stored as {ref}.</p> : <Json label={`Output of ${step}`} value={output} />}
        {correct(effect)}
      </>
    ),
  };
}

function messageOf({ kind, message_type: type, idempotency_key: key, step, subject, correlation_id: job, ...message }: Message): Opened {
  return {
    key: `${kind} ${type} ${key}`,
    cells: [
      [`${kind} `, <code key="type">{type}</code>],
      <Status key="status" word={message.confirmed ? "delivered" : "in_transit"} />,
      <Quiet key="note" of={[`of ${step} · `, <bdi key="subject">{subject}</bdi>]} />,
    ],
    details: (
      <>
        <Json label={`Payload of ${type}`} value={message.payload_ref ?? message.payload_inline} />
        <p class="quiet">
          key <code>{key}</code> · <Link to={hrefOf("jobs", job)}>job</Link>
        </p>
      </>
    ),
  };
}

function Cost({ cost: { usd, messages, parts } }: { cost: Detail["cost"] }) {
  const said = Object.entries(parts).flatMap(([part, { amount, mark }]) =>
    amount > 0 ? [`${part.replaceAll("_", " ")} ${mark === "estimated" ? "about " : ""}${Number(amount.toPrecision(3))}`] : [],
  );
  return (
    <Section title="Cost">
      <p>
        ${usd.toPrecision(2)} <span class="quiet">by list prices · {messages === 1 ? "1 message" : `${messages} messages`}</span>
      </p>
      <p class="quiet">{said.join(" · ")}</p>
    </Section>
  );
}

function Children({ of: id, all }: { of: string; all: Whole["children"] }) {
  return (
    <Section title="Children">
      <ul>
        {all.map((child) => (
          <li key={child.id}>
            <InstanceStatus instance={child} /> {child.workflow} <Link to={hrefOf("instances", child.id)}>{child.id}</Link>{" "}
            <bdi class="quiet">{child.parent?.step}</bdi>
          </li>
        ))}
      </ul>
      {all.length === MOST_CHILDREN && <Link to={hrefOf("instances", { parent: id })}>All children</Link>}
    </Section>
  );
}

const WORTH_SAYING_MS = 1000;

/**
 * The platform's status, if an operator would not expect this status. The platform shows a waiting, sleeping or retrying instance as
 * `running`, and a stopped instance as `complete`.
 */
function Platform({ instance: { status, platform_status: platform } }: { instance: Detail }) {
  // A delayed command has no run on the platform yet.
  const open = ["queued", "running", "waiting", ...(status === "accepted" ? ["unknown"] : [])];
  const usual = OVER.has(status) ? ["complete", "errored", "terminated"] : open;
  const isUsual = platform === status || (status !== "errored" && status !== "complete" && usual.includes(platform));
  return isUsual ? null : <span class="quiet">platform status: {platform}</span>;
}
