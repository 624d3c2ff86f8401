import type { Answer } from "../../data/api.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { ActButtons, type Declared } from "../../parts/act.tsx";
import { begun, inWords, shortId } from "../../parts/text.tsx";
import "./actions.css";
import { sinceOf } from "../../data/clock.ts";
import type { Schema } from "../../data/schema.ts";
import { may } from "../../data/session.ts";
import { counted, Scope, titleOf } from "./words.tsx";

type Asked = Answer<"/v1/bulk-actions", "$post">;
type Plan = Extract<Asked, { sample: unknown }>;
type Started = Extract<Asked, { id: string }>;

type Meant = { filter: Readonly<Record<string, string>> } | { ids: readonly string[] };

/**
 * A bulk action with one of the verbs. Its dialog shows the number of items, the expected refusals and the pace. After the start, the page
 * of the bulk action is opened.
 */
export function bulkOf(word: string, verbs: readonly string[], meant: Meant): Declared {
  const [first = ""] = verbs;
  return {
    verb: word,
    at: "/v1/bulk-actions",
    given: { ...meant, ...(verbs.length === 1 && { verb: first }) },
    fill: { verb: first },
    shape: ({ undo, ramp, rate_per_second, stop_at_error_rate, settle_within_seconds }) => ({
      verb: { enum: [...verbs] },
      ...(verbs.includes("cancel") && { undo: { ...undo, default: true } }),
      ...({ ramp, rate_per_second, stop_at_error_rate, settle_within_seconds } as Record<string, Schema>),
    }),
    titled: ({ matched }: Plan, { verb }) => titleOf(String(verb), counted(String(verb), matched)),
    final: ({ consequence }: Plan) => consequence,
    planned: ({ matched }: Plan) => ({ at_most: matched }),
    refusal: ({ matched }: Plan) => (matched === 0 ? "No items match: there is nothing to do." : null),
    show: (plan: Plan, { verb }) => <Count verb={String(verb)} plan={plan} />,
    leadsTo: ({ id }: Started) => hrefOf("actions", id),
    more: () => <p>Which: {"filter" in meant ? <Scope verb={first} filter={meant.filter} /> : `the ${meant.ids.length} selected`}</p>,
  };
}

function Count({ verb, plan: { matched, stages, parts, sample } }: { verb: string; plan: Plan }) {
  const refused = sample.filter((one) => one.refused !== null);
  return (
    <>
      <p class="actions-count">
        <strong>{counted(verb, matched)}</strong> {matched === 1 ? "matches" : "match"} now
        {stages.length > 1 && <>, in stages of {stages.join(", ")}</>}.
      </p>
      {parts.length > 0 && (
        <ul>
          {parts.map(({ what, count, consequence }) => (
            <li key={what + consequence}>
              {count} of <bdi>{what}</bdi>: {consequence}
            </li>
          ))}
        </ul>
      )}
      <p class="quiet">
        {refused.length === 0
          ? `None of the first ${sample.length} would be refused.`
          : `Of the first ${sample.length}, ${refused.length} would be refused now and left unchanged:`}
      </p>
      {refused.length > 0 && (
        <ul>
          {refused.map(({ id, refused: why }) => (
            <li key={id}>
              <code>{shortId(id)}</code> <bdi>{why}</bdi>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const eitherOf = new Intl.ListFormat("en-GB", { type: "disjunction" });

const FAILED = ["retry", "close", "run_again"];
const GOING_ON = ["cancel", "pause"];

/** The verbs of bulk actions, by the status of the instances. A status without bulk actions is not listed. */
const VERBS: Readonly<Record<string, readonly string[]>> = {
  ...{ errored: FAILED, terminated: FAILED, complete: ["run_again"] },
  ...{ accepted: GOING_ON, queued: GOING_ON, running: GOING_ON, waiting: GOING_ON },
  ...{ paused: ["resume", "cancel"], in_doubt: ["cancel"] },
};

/** The filters of bulk actions on instances. */
const SUPPORTED = new Set(["status", "workflow", "subject", "correlation", "tag", "since", "cause"]);

/** Starts a bulk action on all instances of the list, if the API supports the filters and the status has bulk actions. */
export function InstancesButton({ filters }: { filters: Readonly<Record<string, string | undefined>> }) {
  const { since } = filters;
  // A filter by cause selects only failed instances.
  const status = filters.cause ? "errored" : filters.status;
  const verbs = VERBS[status ?? ""];
  if (!status || !verbs || !Object.keys(filters).every((name) => SUPPORTED.has(name)) || !may("operate")) return null;
  // The age in the filter is converted to a fixed time.
  const filter = { ...filters, status, ...(since && { since: sinceOf(since) }) } as Record<string, string>;
  const word = `${begun(eitherOf.format(verbs))} all that are ${inWords(status)} …`;
  return (
    <p>
      <ActButtons of={[bulkOf(word, verbs, { filter })]} />{" "}
      {status === "in_doubt" && <Link to={hrefOf("to-do", "unknown-outcomes")}>Decide the unknown outcomes</Link>}
    </p>
  );
}
