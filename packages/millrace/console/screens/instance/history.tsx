import { type Answer, get, type Item, itemsOf, together } from "../../data/api.ts";
import type { Explained } from "../../data/explained.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Section } from "../../parts/page.tsx";
import { Moment } from "../../parts/text.tsx";
import { Acted } from "../actions/audit.tsx";
import type { Action } from "../actions/words.tsx";

/** Shows the earlier runs with their outcomes, and the actions of operators. The engine does not keep the steps of earlier runs. */
export function History({ whole: { instance, actions }, runs }: { whole: Whole; runs: readonly Run[] }) {
  return (
    <Section title="History" id="history">
      {runs.length > 0 && (
        <ul>
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
      {actions.length > 0 && <Acted actions={actions} instance={instance.id} />}
      {actions.length === MOST_ACTIONS && (
        <p>
          <Link to={hrefOf("audit", { instance: instance.id })}>All actions on it, in the audit</Link>
        </p>
      )}
    </Section>
  );
}

export type Detail = Answer<"/v1/instances/:id">;
export type Step = Item<"/v1/instances/:id/steps">;
export type Effect = Item<"/v1/instances/:id/effects">;
export type Message = Item<"/v1/instances/:id/events">;
export type Question = Item<"/v1/approvals">;

export const UNDO_STEP = "undo ";

export function hasUndoFailed({ status, undo }: Pick<Detail, "status" | "undo">): boolean {
  return status === "errored" && undo === "open";
}

const MOST_ACTIONS = 50;

export const MOST_CHILDREN = 50;

/** Loads an instance with all that its screen shows. The audit records a request that reveals redacted values. */
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
