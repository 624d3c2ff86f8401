import { useState } from "preact/hooks";
import type { Answer } from "../../data/api.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act, Check } from "../../parts/act.tsx";
import { useActs } from "../../parts/dialog.tsx";
import { Button } from "../../parts/page.tsx";
import { shortId } from "../../parts/text.tsx";
import "./actions.css";
import { sinceOf } from "../../data/clock.ts";
import { may } from "../../data/session.ts";
import { begun, choiceOf, counted, nounOf, Scope, titleOf } from "./words.tsx";

type Asked = Answer<"/v1/bulk-actions", "$post">;
type Plan = Extract<Asked, { sample: unknown }>;
type Started = Extract<Asked, { id: string }>;

export type Meant = { filter: Readonly<Record<string, string>> } | { ids: readonly string[] };

interface BulkActProps {
  verbs: readonly string[];
  meant: Meant;
  close: () => void;
}

/** The engine's default pace of a bulk action. */
const USUAL = { rate: "10", ramp: "1, 10, 100, 1000, 10000", failing: "10", settle: "60" };
type Pace = typeof USUAL;

function paceOf({ rate, ramp, failing, settle }: Pace) {
  const stages = ramp
    .split(/[,\s]+/)
    .filter(Boolean)
    .map(Number);
  const whole = stages.every((size) => Number.isInteger(size) && size > 0) && /^\d+$/.test(settle) && Number(settle) <= 600;
  const within = Number(rate) >= 0.1 && Number(rate) <= 100 && /^[\d.]+$/.test(failing) && Number(failing) <= 100;
  if (!whole || !within || stages.length > 20) return undefined;
  return { ramp: stages, rate_per_second: Number(rate), stop_at_error_rate: Number(failing) / 100, settle_within_seconds: Number(settle) };
}

/**
 * The dialog that starts a bulk action. It shows the number of items, the expected refusals and the pace. After the start, the page of the
 * bulk action is opened.
 */
export function BulkAct({ verbs, meant, close }: BulkActProps) {
  const [verb, setVerb] = useState(verbs[0] ?? "");
  const [said, say] = useState<Pace>(USUAL);
  const [undo, setUndo] = useState(true);
  const pace = paceOf(said);
  const [, many] = nounOf(verb);
  return (
    <Act<Plan, Started>
      title={titleOf(verb, many)}
      verb={titleOf(verb, "them")}
      titled={({ matched }) => titleOf(verb, counted(verb, matched))}
      final={({ follows }) => follows}
      missing={pace === undefined && "A number under “Pace” is out of range."}
      at="/v1/bulk-actions"
      body={{ verb, ...meant, ...pace, ...(verb === "cancel" && { undo }) }}
      on="selection"
      dryRun
      planned={({ matched }) => ({ at_most: matched })}
      refusal={({ matched }) => (matched === 0 ? `No ${many} match: there is nothing to do.` : null)}
      show={(plan) => <Count verb={verb} plan={plan} />}
      leadsTo={({ id }) => hrefOf("actions", id)}
      close={close}
    >
      <p>
        {"filter" in meant ? (
          <>
            Which: <Scope verb={verb} filter={meant.filter} />
          </>
        ) : (
          `Selected: ${counted(verb, meant.ids.length)}`
        )}
      </p>
      {verbs.length > 1 && (
        <fieldset class="actions-verbs">
          <legend>Action</legend>
          {verbs.map((one) => (
            <label key={one} class="check">
              <input type="radio" name="verb" checked={one === verb} onChange={() => setVerb(one)} /> {choiceOf(one)}
            </label>
          ))}
        </fieldset>
      )}
      {verb === "cancel" && <Check label="Undo their effects" isSet={undo} set={setUndo} />}
      <details class="actions-pace">
        <summary>
          {pace
            ? `Pace: ${said.rate} per second, in stages; stops if more than ${said.failing} % of a stage fail`
            : "Pace: one of these numbers is out of range"}
        </summary>
        <div>
          {(
            [
              ["rate", "Rate", "per second (0.1 to 100)"],
              ["ramp", "Stages", "sizes; the last stage has the rest"],
              ["failing", "Stop above", "% failed in a stage (0 to 100)"],
              ["settle", "Wait between stages", "seconds at most (0 to 600), until all ended"],
            ] as const
          ).map(([name, label, unit]) => (
            <label key={name}>
              <span>{label}</span>
              <input
                type="text"
                inputmode="decimal"
                autocomplete="off"
                value={said[name]}
                onInput={(event) => say({ ...said, [name]: event.currentTarget.value.trim() })}
              />
              <span class="quiet">{unit}</span>
            </label>
          ))}
        </div>
      </details>
    </Act>
  );
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
          {parts.map(({ what, count, follows }) => (
            <li key={what + follows}>
              {count} of <bdi>{what}</bdi>: {follows}
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

/**
 * A button that starts a bulk action on all instances of the list. It is shown if the API supports the list's filters and the status has
 * bulk actions.
 */
export function InstancesButton({ filters, isOffered }: { filters: Readonly<Record<string, string | undefined>>; isOffered: boolean }) {
  const { ask, line } = useActs(() => {});
  const { since, overdue, standing, ...rest } = filters;
  // A filter by cause selects only failed instances.
  const status = filters.cause ? "errored" : filters.status;
  const verbs = VERBS[status ?? ""];
  if (!status || !verbs || overdue || standing || !may("operate")) return null;
  // When the dialog opens, the age in the filter is converted to a fixed time.
  const open = () => {
    ask(BulkAct, { verbs, meant: { filter: { ...rest, status, ...(since && { since: sinceOf(since) }) } as Record<string, string> } });
  };
  return (
    <>
      {isOffered && (
        <p>
          <Button press={open}>
            {begun(eitherOf.format(verbs.map(choiceOf)))} all that are {status.replaceAll("_", " ")} …
          </Button>{" "}
          {status === "in_doubt" && <Link to={hrefOf("to-do", "unknown-outcomes")}>Decide the unknown outcomes</Link>}
        </p>
      )}
      {/* A dialog that is already open remains open, and shows that no items are left. */}
      {line}
    </>
  );
}
