import { useState } from "preact/hooks";
import { may } from "../../data/session.ts";
import { sinceOf } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { BulkAct, type Meant } from "./bulk-act.tsx";
import { begun } from "./words.ts";

const ENDED = ["retry", "close"];
const GOING_ON = ["cancel", "pause"];

/** Bulk verbs by status. Final statuses have none. */
const VERBS: Readonly<Record<string, readonly string[]>> = {
  ...{ errored: ENDED, terminated: ENDED },
  ...{ accepted: GOING_ON, queued: GOING_ON, running: GOING_ON, waiting: GOING_ON },
  ...{ paused: ["resume", "cancel"], in_doubt: ["cancel"] },
};

/** Acts on all instances of the list's filters, if the API's filter supports them. Without a status: on the failed ones. */
export function InstancesButton({ filters, isOffered }: { filters: Readonly<Record<string, string | undefined>>; isOffered: boolean }) {
  const [meant, mean] = useState<Meant | undefined>();
  const { status = "errored", since, overdue, standing, ...rest } = filters;
  const verbs = VERBS[status];
  if (!verbs || overdue || standing || !may("operate")) return null;
  // Fixed when the dialog opens, so that an age keeps its time.
  const open = () => {
    const moment = sinceOf(since);
    mean({ filter: { status, ...rest, ...(moment && { since: moment }) } as Record<string, string> });
  };
  // An open dialog remains, and reports that no items are left.
  if (!isOffered && !meant) return null;
  return (
    <p>
      {isOffered && (
        <button type="button" onClick={open}>
          {verbs.map((verb, index) => (index === 0 ? begun(verb) : ` or ${verb}`))} all that are {status.replaceAll("_", " ")} …
        </button>
      )}
      {isOffered && status === "in_doubt" && (
        <>
          {" "}
          <Link to={hrefOf("settings", "doubts")}>Decide the unknown outcomes</Link>
        </>
      )}
      {meant && <BulkAct verbs={verbs} meant={meant} close={() => mean(undefined)} />}
    </p>
  );
}
