import { useState } from "preact/hooks";
import { may } from "../../data/session.ts";
import { sinceOf } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { BulkAct, type Meant } from "./bulk-act.tsx";
import { begun } from "./words.ts";

const ENDED = ["retry", "close"];
const GOING_ON = ["cancel", "pause"];

/** The bulk actions for instances of each status. Final statuses have none. */
const VERBS: Readonly<Record<string, readonly string[]>> = {
  ...{ errored: ENDED, terminated: ENDED },
  ...{ accepted: GOING_ON, queued: GOING_ON, running: GOING_ON, waiting: GOING_ON },
  ...{ paused: ["resume", "cancel"], in_doubt: ["cancel"] },
};

/** Starts a bulk action on all instances that match the list's filters, if the API supports these filters and the listed status has actions. */
export function InstancesButton({ filters, isOffered }: { filters: Readonly<Record<string, string | undefined>>; isOffered: boolean }) {
  const [meant, mean] = useState<Meant | undefined>();
  const { since, overdue, standing, ...rest } = filters;
  // A cause groups failed instances.
  const status = filters.cause ? "errored" : filters.status;
  const verbs = VERBS[status ?? ""];
  if (!status || !verbs || overdue || standing || !may("operate")) return null;
  // The filter is fixed when the dialog opens, so that an age keeps its time.
  const open = () => {
    const moment = sinceOf(since);
    mean({ filter: { ...rest, status, ...(moment && { since: moment }) } as Record<string, string> });
  };
  // A dialog that is open remains, and reports that no items are left.
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
          <Link to={hrefOf("to-do", "unknown-outcomes")}>Decide the unknown outcomes</Link>
        </>
      )}
      {meant && <BulkAct verbs={verbs} meant={meant} close={() => mean(undefined)} />}
    </p>
  );
}
