import type { Explained } from "../../data/explained.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Ago } from "../../parts/time.tsx";
import { Until } from "./until.tsx";
import { type Detail, hasUndoFailed, UNDO_STEP } from "./whole.ts";

interface CauseProps {
  instance: Detail;
  explained: ReadonlyMap<string, Explained>;
}

/**
 * A sentence about the reason for an instance's status. Empty for a status that needs no reason. Questions and unknown outcomes are shown
 * separately.
 */
export function Cause({ instance, explained }: CauseProps) {
  const { status, error, retrying, sleeping, waiting_for: waits, held } = instance;
  if (error && status !== "complete") return <Failure {...{ instance, error, explained }} />;
  if (retrying) {
    return (
      <p class="cause" data-tone="amber">
        <bdi>
          {retrying.step} failed at attempt {retrying.attempt}: {retrying.error}
        </bdi>{" "}
        <span class="quiet">
          {retrying.next_at ? (
            <>
              next attempt <Ago at={retrying.next_at} />
            </>
          ) : (
            "it will be retried"
          )}
        </span>
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
      {events.map(({ step, event_type, subject, until }) => (
        <li key={`${step} ${event_type}`}>
          <bdi>
            {step} waits for {event_type ?? "an answer"}
            {subject && ` about ${subject}`}
          </bdi>
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
      {hint && (
        <p class="beside">
          <bdi>{hint}</bdi>
        </p>
      )}
      <p class="beside quiet">
        {status !== undefined && `The upstream answered ${status}. `}
        {meant && `${meant.means} ${meant.next} `}
        <a href={`/problems#${code}`} target="_blank" rel="noreferrer">
          {code}
        </a>{" "}
        · <Link to={hrefOf("instances", { status: "errored", workflow })}>all failed instances of {workflow}</Link>
      </p>
    </div>
  );
}
