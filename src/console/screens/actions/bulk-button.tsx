import { useState } from "preact/hooks";
import { may } from "../../data/session.ts";
import { sinceOf } from "../../frame/filters.tsx";
import { BulkAct, type Meant } from "./bulk-act.tsx";

const ENDED = ["retry", "close"];
const GOING_ON = ["cancel", "pause"];

/** What can be done to many instances of a status; nothing to what is over as it was asked. */
const VERBS: Readonly<Record<string, readonly string[]>> = {
  ...{ errored: ENDED, terminated: ENDED },
  ...{ accepted: GOING_ON, queued: GOING_ON, running: GOING_ON, waiting: GOING_ON },
  ...{ paused: ["resume", "cancel"], in_doubt: ["cancel"] },
};

/** Acts on all instances that a list's filters mean; those that failed, where they name no status. */
export function InstancesButton({ filters }: { filters: Readonly<Record<string, string | undefined>> }) {
  const [meant, mean] = useState<Meant | undefined>();
  const { status = "errored", since, overdue, ...rest } = filters;
  const verbs = VERBS[status];
  if (!verbs || overdue || !may("operate")) return null;
  // Fixed as it is opened: what is counted is what is acted upon.
  const open = () => {
    const moment = sinceOf(since);
    mean({ filter: { status, ...rest, ...(moment && { since: moment }) } as Record<string, string> });
  };
  return (
    <p>
      <button type="button" onClick={open}>
        {verbs[0] === "retry" ? "Retry" : "Act on"} all that are {status.replaceAll("_", " ")} …
      </button>
      {meant && <BulkAct verbs={verbs} meant={meant} close={() => mean(undefined)} />}
    </p>
  );
}
