import { timeNow } from "../../data/clock.ts";
import { may } from "../../data/session.ts";
import { Acts, type Declared } from "../../parts/act.tsx";
import { isDelayed } from "../../parts/status.tsx";
import { type Detail, hasUndoFailed } from "./history.tsx";
import { stepOf } from "./step.ts";

const WORDS = {
  ...{ retry: "Retry", skip: "Skip the step", undo: "Undo", cancel: "Cancel", pause: "Pause", resume: "Resume", restart: "Restart" },
  ...{ signal: "Signal", close: "Close", "run-again": "Run again", release: "Start now", move: "Move" },
} as const;

type Verb = keyof typeof WORDS;

/** Actions that continue an instance. Their button is highlighted if it is the first, unless an operator stopped the instance. */
const FORWARD: ReadonlySet<Verb> = new Set(["retry", "resume", "signal"]);

/** The possible actions, the most useful first. This list only hides actions that the API would refuse. */
function verbsFor(instance: Detail): Verb[] {
  const { status, undo, waiting_for: waits, error, unknown_outcomes: doubts, held } = instance;
  // Returns verbs that are only possible after all unknown outcomes are resolved.
  const answered = (...verbs: Verb[]) => (doubts.length === 0 ? verbs : []);
  if (status === "errored") {
    const skip = error?.step ? (["skip"] as const) : [];
    return ["retry", ...skip, ...(undo === null ? [...answered("undo"), "restart" as const] : []), "run-again", ...answered("close")];
  }
  if (status === "terminated")
    return ["retry", ...answered(...(undo === null ? ["undo" as const] : [])), "run-again", ...answered("close")];
  // While an undo is running, the only possible action is to close an instance in doubt.
  if (undo === "open") return status === "in_doubt" ? answered("close") : [];
  if (status === "complete") return ["undo", "run-again"];
  if (status === "paused") return ["resume", "cancel"];
  if (status === "in_doubt") return ["cancel", ...answered("close")];
  if (status === "dead" || status === "skipped") return [];
  if (isDelayed(instance)) return [...DELAYED_VERBS, "pause"];
  // An instance that waits for a slot can start beyond the limit. A pause is refused, also while the workflow is paused.
  if (held !== null) return held.startsWith("Waits for") ? ["release", "cancel"] : ["cancel"];
  // An accepted instance has usually not started, and then a restart is refused.
  if (status === "accepted") return ["pause", "cancel"];
  return [...(waits.some(({ event_type }) => event_type !== null) ? (["signal"] as const) : []), "pause", "cancel", "restart"];
}

export const DELAYED_VERBS = ["release", "move", "cancel"] as const satisfies Verb[];

type Acted = Pick<Detail, "id" | "status" | "undo" | "waiting_for" | "due_at">;

/** An action on an instance. `step` is the step to retry or to skip. */
export function actOn(instance: Acted, verb: Verb, step?: string): Declared {
  const { id, waiting_for: waits, due_at: due } = instance;
  const act = { verb: WORDS[verb], param: { id }, at: `/v1/instances/:id/${verb}` } as Declared;
  const type = waits.find(({ event_type }) => event_type !== null)?.event_type ?? "";
  switch (verb) {
    case "signal":
      return { ...act, about: type, at: "/v1/instances/:id/signals/:type", param: { id, type }, fill: { payload: {} } };
    case "retry":
      return { ...act, about: step, given: { ...(step && { from: step }) } };
    case "skip":
      // An effect that an undo could not undo has no output.
      return { ...act, about: step, given: stepOf(step ?? ""), fill: hasUndoFailed(instance) ? {} : { output: undefined } };
    case "move":
      return { ...act, fill: { run_at: due ?? new Date(timeNow()).toISOString() } };
    default:
      return act;
  }
}

export function InstanceActs({ instance }: { instance: Detail }) {
  const { archived_at: archived, status, error } = instance;
  if (!may("operate")) return null;
  if (archived !== null) return <p class="quiet">This instance is archived: it can be read, and no longer changed.</p>;
  const acts = verbsFor(instance).map((verb, index) => ({
    ...actOn(instance, verb, error?.step),
    class: index === 0 && FORWARD.has(verb) && status !== "terminated" ? "main" : undefined,
  }));
  return <Acts of={acts} />;
}
