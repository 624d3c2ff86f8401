import type { Explained } from "../../data/explained.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Status } from "../../parts/status.tsx";
import { Moment, Name } from "../../parts/text.tsx";
import { labelOf } from "./step.ts";
import { type Action, MOST_ACTIONS, type Run, type Whole } from "./whole.ts";

/** The sentences of the audit, by verb. `{}` is the step, the event or the question. */
const SAID: Readonly<Record<string, string>> = {
  retry: "retried it",
  restart: "restarted it",
  undo: "undid it",
  cancel: "cancelled it",
  pause: "paused it",
  resume: "resumed it",
  close: "closed it permanently",
  reveal: "revealed withheld fields",
  replay: "replayed its dead letter",
  skip: "skipped its dead letter",
  attempt: "attempted an action that was refused",
  skip_step: "skipped “{}”",
  signal: "sent it {}",
  confirm: "confirmed that “{}” happened",
  reject: "rejected “{}”: it did not happen",
  retry_anyway: "ran “{}” again although it may happen twice",
  approve: "approved: {}",
  reject_approval: "rejected: {}",
};

function sentenceOf({ verb, target, detail }: Action, { effects, questions }: Whole): string {
  const effect = effects.find(({ key }) => key === target);
  const part =
    (effect && labelOf(effect)) ??
    questions.find(({ id }) => id === target)?.question ??
    (detail && labelOf({ step: String(detail.step ?? detail.type ?? ""), item: String(detail.item ?? "") })) ??
    "";
  return SAID[verb]?.replace("{}", () => part) ?? verb.replaceAll("_", " ");
}

interface HistoryProps {
  whole: Whole;
  runs: readonly Run[];
  explained: ReadonlyMap<string, Explained>;
}

/** Shows the earlier runs with their outcomes, and the actions of operators. The engine does not keep the steps of earlier runs. */
export function History({ whole, runs, explained }: HistoryProps) {
  const {
    actions,
    instance: { id },
  } = whole;
  return (
    <section aria-labelledby="history">
      <h2 id="history">History</h2>
      {runs.length > 0 && (
        <ul class="runs">
          {runs.map(({ number, begunAt, by, before }) => (
            <li key={number}>
              Run {number - 1} {before ?? "ended"}
              <span class="quiet">
                {" "}
                · run {number} started at <Moment at={begunAt} /> by <bdi>{by}</bdi>
              </span>
            </li>
          ))}
        </ul>
      )}
      {actions.length === 0 && <p class="quiet">No operator has acted on this instance.</p>}
      <ol class="history">
        {actions.map((action) => (
          <li key={action.id}>
            <span class="quiet">
              <Moment at={action.at} />
            </span>
            <div>
              <p>
                <Name of={action.actor} /> <bdi>{sentenceOf(action, whole)}</bdi>
                {action.detail?.bulk != null && [
                  " in ",
                  <Link key="bulk" to={hrefOf("actions", String(action.detail.bulk))}>
                    a bulk action
                  </Link>,
                ]}
                : <bdi>{action.reason}</bdi>
              </p>
              {action.result !== "applied" && <p class="quiet">{whyNot(action, explained)}</p>}
            </div>
            <Status word={action.result} />
            <Link to={hrefOf("audit", { instance: id, row: `${Date.parse(action.at)}.${action.id}` })}>details</Link>
          </li>
        ))}
      </ol>
      {actions.length === MOST_ACTIONS && (
        <p>
          <Link to={hrefOf("audit", { instance: id })}>All actions on it, in the audit</Link>
        </p>
      )}
    </section>
  );
}

function whyNot({ result, detail, error }: Action, explained: ReadonlyMap<string, Explained>): string {
  if (result === "no_change") return "no longer possible, or another operator was faster";
  if (result === "failed") return error ?? "the platform did not accept it within a day";
  const code = String(detail?.code ?? "");
  return explained.get(code)?.title ?? code;
}
