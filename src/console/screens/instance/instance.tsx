import { useState } from "preact/hooks";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { useStream } from "../../data/use-stream.ts";
import { useKeys } from "../../frame/keys.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { AnswerQuestion } from "../../parts/answer.tsx";
import { copied, Id } from "../../parts/id.tsx";
import { Json } from "../../parts/json.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { InstanceStatus } from "../../parts/status.tsx";
import { Ago, duration } from "../../parts/time.tsx";
import type { ScreenProps } from "../screen.ts";
import { ActButtons, AskAct, type Asked } from "./acts.tsx";
import { Cause } from "./cause.tsx";
import { Cost } from "./cost.tsx";
import { Effects } from "./effects.tsx";
import "./instance.css";
import { Messages } from "./messages.tsx";
import { Timeline } from "./timeline.tsx";
import { type Detail, type Step, wholeInstance } from "./whole.ts";

const OVER = new Set(["complete", "errored", "terminated", "dead", "skipped"]);

/** One instance: why it stands where it stands, what can be done about it, and everything that it did. */
export function Instance({ param: id }: ScreenProps) {
  const [reveal, setReveal] = useState(false);
  const [asked, ask] = useState<Asked | undefined>();
  const [answer, setAnswer] = useState<{ id: string; question: string; verb: "approve" | "reject" } | undefined>();
  const [said, say] = useState("");
  const { data, problem, again } = useData(
    () => wholeInstance(id, reveal),
    [id, reveal],
    ({ kind, data }) => (kind === "instance" && data.id === id) || ((kind === "action" || kind === "doubt") && data.instance_id === id),
  );
  useStream(`/v1/instances/${encodeURIComponent(id)}/stream`, again);
  useKeys({ c: () => void copied(id).then((done) => done && say("The id is copied.")) });

  if (!data) return problem ? <Lost problem={problem} /> : <p class="quiet">Reading …</p>;
  const { instance, steps, effects, messages } = data;
  const trouble = instance.error?.step ?? instance.retrying?.step ?? steps.find(({ state }) => state !== "complete")?.name;
  const told = (sentence: string) => {
    say(sentence);
    again();
  };
  const actsOf = (step: Step) =>
    may("operate") && ["errored", "terminated"].includes(instance.status) && step.type === "do" && step.state !== "complete" ? (
      <p class="acts">
        <button type="button" onClick={() => ask({ verb: "retry", step: step.name })}>
          Retry from here
        </button>
      </p>
    ) : null;
  return (
    <>
      <h1>
        {instance.workflow} <span class="quiet">·</span> <bdi>{instance.subject}</bdi>
      </h1>
      <Facts instance={instance} steps={steps.length} />
      {problem && <ProblemNote problem={problem} />}
      <Cause instance={instance} />
      {instance.waiting_for.map(
        ({ step, approval_id: approval }) =>
          approval !== null && (
            <p key={approval} class="acts">
              {(["approve", "reject"] as const).map((verb) => (
                <button
                  key={verb}
                  type="button"
                  class={verb === "approve" ? "main" : undefined}
                  onClick={() => setAnswer({ id: approval, question: step, verb })}
                >
                  {verb === "approve" ? "Say yes" : "Say no"}
                </button>
              ))}
            </p>
          ),
      )}
      <ActButtons instance={instance} ask={ask} />
      <p class="told" role="status">
        {said}
      </p>
      <h2>Time</h2>
      {steps.length > 0 ? <Timeline steps={steps} trouble={trouble} actsOf={actsOf} /> : <p class="quiet">No step has begun.</p>}
      <div class="pair">
        <section aria-label="Asked">
          <h2>Asked</h2>
          {instance.payload_ref ? (
            <p class="quiet">Too large to travel: kept as {instance.payload_ref}.</p>
          ) : (
            <Json label="What was asked" value={instance.payload} />
          )}
        </section>
        <section aria-label="Answered">
          <h2>Answered</h2>
          {OVER.has(instance.status) ? <Json label="What it answered" value={instance.result} /> : <p class="quiet">It is not over.</p>}
          {instance.result_changed && <p class="quiet">{instance.result_changed}</p>}
        </section>
      </div>
      {may("reveal") && !reveal && JSON.stringify([instance.payload, instance.result, effects]).includes("[redacted]") && (
        <p>
          <button type="button" onClick={() => setReveal(true)}>
            Reveal what is withheld
          </button>{" "}
          <span class="quiet">That is a row of the audit.</span>
        </p>
      )}
      <Effects effects={effects} told={told} />
      <Messages messages={messages} />
      <Cost cost={instance.cost} />
      {asked && <AskAct instance={instance} asked={asked} done={told} close={() => ask(undefined)} />}
      {answer && (
        <AnswerQuestion {...answer} done={(action) => told(`Answered, as action ${action}.`)} close={() => setAnswer(undefined)} />
      )}
    </>
  );
}

/** What one wants to know of any instance, in a line. */
function Facts({ instance, steps }: { instance: Detail; steps: number }) {
  const {
    id,
    accepted_at: accepted,
    updated_at: updated,
    correlation_id: job,
    status,
    platform_status: platform,
    must_end_by: due,
  } = instance;
  const took = (OVER.has(status) ? Date.parse(updated) : Date.now()) - Date.parse(accepted);
  return (
    <p class="facts">
      <InstanceStatus instance={instance} />
      <span>
        accepted <Ago at={accepted} />
      </span>
      <span>{OVER.has(status) ? `took ${duration(took)}` : "under way"}</span>
      <span>
        {steps} {steps === 1 ? "step" : "steps"} · ${instance.cost.usd.toPrecision(2)}
      </span>
      <span>
        job <Link to={hrefOf("jobs", job)}>{job}</Link>
      </span>
      <Id id={id} />
      {due && (
        <span>
          to end <Ago at={due} />
        </span>
      )}
      <span class="quiet">the platform says {platform}</span>
    </p>
  );
}

function Lost({ problem }: { problem: Parameters<typeof ProblemNote>[0]["problem"] }) {
  return (
    <>
      <h1>Instance</h1>
      <ProblemNote problem={problem} />
      <p>
        <Link to={hrefOf("instances")}>All instances</Link>
      </p>
    </>
  );
}
