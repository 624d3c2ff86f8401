import { useState } from "preact/hooks";
import { may } from "../../data/session.ts";
import { sinceOf } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { BulkAct, type Meant } from "./bulk-act.tsx";
import { begun, choiceOf } from "./words.ts";

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
  const [meant, mean] = useState<Meant | undefined>();
  const { since, overdue, standing, ...rest } = filters;
  // A filter by cause selects only failed instances.
  const status = filters.cause ? "errored" : filters.status;
  const verbs = VERBS[status ?? ""];
  if (!status || !verbs || overdue || standing || !may("operate")) return null;
  // When the dialog opens, the age in the filter is converted to a fixed time.
  const open = () => {
    const moment = sinceOf(since);
    mean({ filter: { ...rest, status, ...(moment && { since: moment }) } as Record<string, string> });
  };
  // A dialog that is already open remains open, and shows that no items are left.
  if (!isOffered && !meant) return null;
  return (
    <p>
      {isOffered && (
        <button type="button" onClick={open}>
          {begun(eitherOf.format(verbs.map(choiceOf)))} all that are {status.replaceAll("_", " ")} …
        </button>
      )}
      {isOffered && status === "in_doubt" && (
        <>
          {" "}
          <Link to={hrefOf("to-do", "unknown-outcomes")}>Decide the unknown outcomes</Link>
        </>
      )}
      {meant && <BulkAct verbs={verbs} meant={meant} close={() => mean(undefined)} />}
    </p>
  );
}
