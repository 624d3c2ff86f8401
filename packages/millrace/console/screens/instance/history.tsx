import type { Explained } from "../../data/explained.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Status } from "../../parts/status.tsx";
import { Moment } from "../../parts/time.tsx";
import { labelOf } from "./step-names.ts";
import { type Action, MOST_ACTIONS, type Whole } from "./whole.ts";

/** What was done, as people say it. */
const SAID: Readonly<Record<string, string>> = {
  retry: "retried it",
  restart: "restarted it",
  undo: "had it undone",
  cancel: "cancelled it",
  pause: "paused it",
  resume: "resumed it",
  close: "closed it for good",
  reveal: "looked at what is withheld",
  replay: "replayed its dead letter",
  skip: "skipped its dead letter",
  attempt: "tried something that was refused",
};

/** A verb about one of its parts, with that part: a step, a question, an event. */
const SAID_OF: Readonly<Record<string, (part: string) => string>> = {
  skip_step: (step) => `skipped “${step}”`,
  signal: (type) => `sent it ${type}`,
  confirm: (step) => `said that “${step}” happened`,
  reject: (step) => `said that “${step}” did not happen`,
  retry_anyway: (step) => `had “${step}” run again, knowing that it may happen twice`,
  approve: (question) => `approved: ${question}`,
  reject_approval: (question) => `rejected: ${question}`,
};

function sentenceOf({ verb, target, detail }: Action, { effects, questions }: Whole): string {
  const effect = effects.find(({ key }) => key === target);
  const part =
    (effect && labelOf(effect)) ??
    questions.find(({ id }) => id === target)?.question ??
    (detail && labelOf({ step: String(detail.step ?? detail.type ?? ""), item: String(detail.item ?? "") })) ??
    "";
  return SAID_OF[verb]?.(part) ?? SAID[verb] ?? verb.replaceAll("_", " ");
}

/** Who did what to an instance, why, and what came of it; newest first. */
export function History({ whole, explained }: { whole: Whole; explained: ReadonlyMap<string, Explained> }) {
  const {
    actions,
    instance: { id },
  } = whole;
  return (
    <section aria-labelledby="people">
      <h2 id="people">What people did</h2>
      {actions.length === 0 && <p class="quiet">Nobody has acted on it.</p>}
      <ol class="history">
        {actions.map((action) => (
          <li key={action.id}>
            <span class="quiet">
              <Moment at={action.at} />
            </span>
            <div>
              <p>
                <strong>
                  <bdi>{action.actor}</bdi>
                </strong>{" "}
                <bdi>{sentenceOf(action, whole)}</bdi>
                {action.detail?.bulk != null && (
                  <>
                    {" "}
                    in <Link to={hrefOf("actions", String(action.detail.bulk))}>a bulk action</Link>
                  </>
                )}
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
          <Link to={hrefOf("audit", { instance: id })}>All that was done to it, in the audit</Link>
        </p>
      )}
    </section>
  );
}

function whyNot({ result, detail, error }: Action, explained: ReadonlyMap<string, Explained>): string {
  if (result === "no_change") return "it was not possible by then, or somebody was faster";
  if (result === "failed") return error ?? "the platform could not be told within a day";
  const code = String(detail?.code ?? "");
  return explained.get(code)?.title ?? code;
}
