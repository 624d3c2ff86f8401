import type { Explained } from "../../data/explained.ts";
import { may } from "../../data/session.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Acts } from "../../parts/act.tsx";
import { answersOf, DoubtAnswers, type Follows } from "../../parts/answer.tsx";
import { Folded, Json } from "../../parts/json.tsx";
import { Code } from "../../parts/page.tsx";
import { Ago, Moment, onThePage, Text } from "../../parts/text.tsx";
import { type Detail, type Effect, hasUndoFailed, type Question, UNDO_STEP } from "./history.tsx";
import { labelOf } from "./step.ts";

interface CauseProps {
  instance: Detail;
  explained: ReadonlyMap<string, Explained>;
}

/** The reason for an instance's status, except questions and unknown outcomes, which are shown separately. */
export function Cause({ instance, explained }: CauseProps) {
  const { status, error, retrying, sleeping, waiting_for: waits, held } = instance;
  if (error && status !== "complete") return <Failure {...{ instance, error, explained }} />;
  if (retrying) {
    return (
      <p class="cause" data-tone="amber">
        <bdi>
          {retrying.step} failed at attempt {retrying.attempt}: {retrying.error}
        </bdi>{" "}
        {retrying.next_at ? <Ago label="next attempt" at={retrying.next_at} /> : "it will be retried"}
      </p>
    );
  }
  if (held) {
    return (
      <p class="cause" data-tone="amber">
        It does not start. <bdi>{held}</bdi> <Link to={hrefOf("catalog", `workflow ${instance.workflow}`)}>Pause and resume</Link>
      </p>
    );
  }
  const events = waits.filter(({ approval_id: question }) => question === null);
  if (events.length === 0 && !sleeping) return null;
  return (
    <ul class="cause" data-tone="violet">
      {events.map(({ step, event_type, subject, child_id: child, until }) => (
        <li key={`${step} ${event_type}`}>
          <bdi>
            {step} waits for {child ? "its child " : (event_type ?? "an answer")}
            {subject && ` about ${subject}`}
          </bdi>
          {child && <Link to={hrefOf("instances", child)}>{child}</Link>}
          <Until at={until} />
        </li>
      ))}
      {sleeping && (
        <li>
          {sleeping.step ?? "A step"} sleeps
          <Until at={sleeping.until} />
        </li>
      )}
    </ul>
  );
}

type Failed = NonNullable<Detail["error"]>;

function Failure({ instance, error, explained }: CauseProps & { error: Failed }) {
  const { step, behind, attempts, message, code, upstream_status: status, hint } = error;
  const { workflow, status: at } = instance;
  const inUndo = hasUndoFailed(instance);
  const threw = behind ? `The code threw after ${behind}` : "The code threw";
  const failed = step ? `${step} failed` : at === "accepted" || at === "queued" ? "It cannot start" : threw;
  const back = step && ` at ${step.startsWith(UNDO_STEP) ? step.slice(UNDO_STEP.length) : step}`;
  const where = inUndo ? `The undo failed${back}` : failed;
  const meant = explained.get(code);
  return (
    <div class="cause" data-tone="red">
      <p>
        <bdi>
          {where}
          {attempts > 1 && ` ${attempts} times`}: {message}
        </bdi>
      </p>
      {inUndo && (
        <p class="beside">
          Effects that are not undone yet remain. A retry continues the undo
          {step && "; if this step can never succeed, skip it and undo its effect by hand"}.
        </p>
      )}
      {hint && <p class="beside">{<bdi>{onThePage(hint)}</bdi>}</p>}
      <p class="beside quiet">
        {status !== undefined && `The upstream answered ${status}. `}
        {meant && `${meant.meaning} ${meant.next} `}
        <Code code={code} /> · <Link to={hrefOf("instances", { status: "errored", workflow })}>all failed instances of {workflow}</Link>
      </p>
    </div>
  );
}

export function OpenQuestion({ question: asked }: { question: Question }) {
  const { question, step, details, otherwise, due_at: due } = asked;
  return (
    <section class="cause" data-tone="violet" aria-label="Question">
      <p>
        Question: <strong>{<bdi>{question}</bdi>}</strong>
      </p>
      {details && <Json value={details} label="Details of the question" />}
      <p class="beside quiet">
        Step: <bdi>{step}</bdi>. Without an answer, it is {otherwise === "approve" ? "approved" : "rejected"} at <Moment at={due} />.
      </p>
      <Acts of={answersOf(asked)} />
    </section>
  );
}

interface DoubtProps {
  step: string;
  why: string | null;
  since: string;
  consequences: Follows;
  effect: Effect | undefined;
  workflow: string;
}

/** An effect with an unknown outcome, or with rows that the database refused, and the consequence of each resolution. */
export function OpenDoubt({ step, why, since, consequences, effect, workflow }: DoubtProps) {
  const isKnown = effect?.answered != null;
  return (
    <section class="cause" data-tone="orange" aria-label="Unknown outcome">
      <p>
        {isKnown ? "The effect" : "Unknown outcome: the effect"}{" "}
        <strong>
          <bdi>{effect ? labelOf(effect) : step}</bdi>
        </strong>{" "}
        {isKnown
          ? "happened, but the rows recorded with it were refused. Deploy code with valid rows, then decide:"
          : "may have happened. Check the upstream, then decide:"}
      </p>
      {effect && may("operate") && <DoubtAnswers doubt={{ ...effect, workflow }} consequences={consequences} />}
      <p class="beside quiet">
        In doubt since <Moment at={since} />
        <Text before=": " of={why} />
      </p>
      {effect && effect.input !== null && <Folded class="beside" title="Input" value={effect.input} label={`Input of ${step}`} />}
    </section>
  );
}

export function Until({ at }: { at: string | null }) {
  if (at === null) return null;
  return (
    <>
      , until <Moment at={at} />
    </>
  );
}
