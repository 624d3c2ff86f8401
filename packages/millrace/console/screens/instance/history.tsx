import { type Answer, get, type Item, itemsOf, together } from "../../data/api.ts";
import type { Explained } from "../../data/explained.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Status } from "../../parts/status.tsx";
import { Moment, Name } from "../../parts/text.tsx";
import { labelOf } from "./step.ts";

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

export type Detail = Answer<"/v1/instances/:id">;
export type Step = Item<"/v1/instances/:id/steps">;
export type Effect = Item<"/v1/instances/:id/effects">;
export type Message = Item<"/v1/instances/:id/events">;
type Action = Item<"/v1/audit">;
export type Question = Item<"/v1/approvals">;

export const UNDO_STEP = "undo ";

export function hasUndoFailed({ status, undo }: Pick<Detail, "status" | "undo">): boolean {
  return status === "errored" && undo === "open";
}

const MOST_ACTIONS = 50;

/** The number of children that are shown, newest first. */
export const MOST_CHILDREN = 50;

/**
 * Loads an instance with its steps, effects, actions and questions. `reveal` loads the redacted values; the API records this in the audit.
 */
export function wholeInstance(id: string, reveal: boolean) {
  const param = { id };
  const revealed = reveal ? { reveal: "true" as const } : {};
  return together({
    instance: get("/v1/instances/:id", { param, query: revealed }),
    steps: itemsOf(get("/v1/instances/:id/steps", { param })),
    effects: itemsOf(get("/v1/instances/:id/effects", { param, query: revealed })),
    messages: itemsOf(get("/v1/instances/:id/events", { param, query: { payload: "true", ...revealed } })),
    actions: itemsOf(get("/v1/audit", { query: { instance: id, limit: String(MOST_ACTIONS) } })),
    questions: itemsOf(get("/v1/approvals", { query: { instance: id } })),
    children: itemsOf(get("/v1/instances", { query: { parent: id, limit: String(MOST_CHILDREN) } })),
  });
}

export type Whole = Extract<Awaited<ReturnType<typeof wholeInstance>>, { ok: true }>["data"];

/** A run that an operator's action started. Each retry, restart, undo and cancel starts the next run. */
export interface Run {
  number: number;
  begunAt: string;
  by: string;
  /** The error of the previous run. Undefined if no previous run exists, or if the error of the previous run is not recorded. */
  before: string | undefined;
}

const CALLED: Readonly<Record<string, string>> = { skip_step: "skip of a step" };

/** The runs of an instance after its first one, oldest first, derived from the audit. */
export function runsOf(actions: readonly Action[], explained: ReadonlyMap<string, Explained>): Run[] {
  return actions.toReversed().flatMap(({ result, detail, verb, actor, at }) => {
    // If an operator stops an instance without an undo, no new run starts.
    if (result !== "applied" || typeof detail?.run !== "number" || detail.undo === false) return [];
    return [{ number: detail.run, begunAt: at, by: `${actor}'s ${CALLED[verb] ?? verb}`, before: failureIn(detail.failed, explained) }];
  });
}

function failureIn(failed: unknown, explained: ReadonlyMap<string, Explained>): string | undefined {
  if (typeof failed !== "object" || failed === null) return undefined;
  const { step, code, attempts, upstream_status: status } = failed as Record<string, unknown>;
  const title = explained.get(String(code))?.title.toLowerCase() ?? String(code).replaceAll("_", " ");
  const often = typeof attempts === "number" && attempts > 1 ? `, ${attempts} attempts` : "";
  return `failed${step ? ` at ${step}` : ""}: ${title}${status === undefined ? "" : ` (status ${status})`}${often}`;
}

export const OVER: ReadonlySet<string> = new Set(["complete", "errored", "terminated", "dead", "skipped"]);
