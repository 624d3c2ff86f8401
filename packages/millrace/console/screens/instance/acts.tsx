import { useState } from "preact/hooks";
import { timeNow } from "../../data/clock.ts";
import { may } from "../../data/session.ts";
import { useCatalog } from "../../data/use-data.ts";
import { writtenJson } from "../../data/written.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act, Check, TimeField } from "../../parts/act.tsx";
import { JsonField } from "../../parts/answer.tsx";
import type { Asker } from "../../parts/dialog.tsx";
import { Button } from "../../parts/page.tsx";
import { EffectPlan, type Plan, RefusedPlan } from "../../parts/plan.tsx";
import { isDelayed } from "../../parts/status.tsx";
import { exact, instant, timeZone } from "../../parts/text.tsx";
import { type Detail, hasUndoFailed, UNDO_STEP } from "./history.tsx";
import { stepOf } from "./step.ts";

interface Declared {
  word: string;
  /** The dialog's title and button. Default: `word`. */
  does?: string;
  /** The reason why the action cannot be undone. */
  final?: string;
  /** True if a repeated request with the same idempotency key has no second effect. */
  isKeyed?: true;
  /** True if the action continues the instance, so that its button is highlighted, unless an operator stopped the instance. */
  isForward?: true;
  /** True if the workflow's code continues after the action. The code then determines which steps follow. */
  runsCode?: true;
}

const declared = <Name extends string>(acts: Readonly<Record<Name, Declared>>) => acts;

export const ACTS = declared({
  retry: { word: "Retry", isForward: true, runsCode: true },
  skip: {
    word: "Skip the step",
    final: "Your output replaces the output of the step. The step does not run again, and an undo does not revert it.",
    runsCode: true,
  },
  undo: {
    word: "Undo",
    does: "Undo the instance",
    final: "A started undo cannot be stopped.",
  },
  cancel: { word: "Cancel", does: "Cancel the instance", final: "A started cancel cannot be stopped." },
  pause: { word: "Pause", does: "Pause the instance" },
  resume: { word: "Resume", isForward: true },
  restart: { word: "Restart", runsCode: true },
  signal: { word: "Signal", isKeyed: true, isForward: true },
  close: { word: "Close", does: "Close permanently", final: "A closed instance cannot be reopened." },
  "run-again": { word: "Run again", does: "Run a copy", isKeyed: true },
  release: { word: "Start now" },
  move: { word: "Move", does: "Move to another time" },
});

export type Verb = keyof typeof ACTS;

export interface Asked {
  verb: Verb;
  step?: string | undefined;
}

/**
 * Actions for an instance's status, the most useful action first. This list only hides actions that the API would refuse; the API itself
 * checks each action.
 */
function verbsFor(instance: Detail): Verb[] {
  const { status, undo, waiting_for: waits, error, doubts, held } = instance;
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

export function ActButtons({ instance, ask }: { instance: Detail; ask: (asked: Asked) => void }) {
  if (!may("operate")) return null;
  if (instance.archived_at !== null) return <p class="quiet">This instance is archived: it can be read, and no longer changed.</p>;
  return (
    <p class="acts">
      {verbsFor(instance).map((verb, index) => (
        <Button
          key={verb}
          class={index === 0 && ACTS[verb].isForward && instance.status !== "terminated" ? "main" : undefined}
          press={() => ask({ verb, step: instance.error?.step })}
        >
          {ACTS[verb].word}
        </Button>
      ))}
    </p>
  );
}

/** The actions for a delayed command, which the list of delayed commands also shows. */
export const DELAYED_VERBS = ["release", "move", "cancel"] as const satisfies Verb[];

interface AskProps extends Asker {
  instance: Pick<Detail, "id" | "workflow" | "status" | "undo" | "waiting_for" | "due_at">;
  asked: Asked;
}

export function AskAct({ instance, asked: { verb, step }, ...asker }: AskProps) {
  const { word, does = word, final, isKeyed, runsCode } = ACTS[verb];
  const [text, setText] = useState(verb === "signal" ? "{}" : "");
  const [undo, setUndo] = useState(true);
  const [time, setTime] = useState(() => exact(instance.due_at ?? timeNow()));
  const at = instant(time);
  const wait = instance.waiting_for.find(({ event_type }) => event_type !== null);
  const inUndo = hasUndoFailed(instance);
  // A step of an undo has no output.
  const takesOutput = verb === "skip" && !(inUndo && step?.startsWith(UNDO_STEP));
  const isEmpty = text.trim() === "";
  const said = writtenJson(verb === "skip" && isEmpty ? "null" : text);
  const takesJson = takesOutput || verb === "signal";
  const body = {
    ...(verb === "retry" && step && { from: step }),
    ...(verb === "cancel" && { undo }),
    ...(verb === "move" && !Number.isNaN(at) && { run_at: new Date(at).toISOString() }),
    ...(verb === "skip" && { ...(step && stepOf(step)), ...(!(inUndo && isEmpty) && { output: said }) }),
    ...(verb === "signal" && { payload: said }),
  };
  return (
    <Act<Plan, { instance_id?: string }>
      {...asker}
      title={`${does}${step && (verb === "retry" || verb === "skip") ? `: ${step}` : ""}`}
      verb={does}
      final={(inUndo && verb === "skip" ? "Your decision is final: the undo skips this step." : final) ?? null}
      missing={
        (verb === "move" && Number.isNaN(at) && "Enter a date and a time.") ||
        (takesJson && said.wrong !== undefined && "The JSON above is not valid.")
      }
      at={verb === "signal" ? "/v1/instances/:id/signals/:type" : `/v1/instances/:id/${verb}`}
      param={{ id: instance.id, type: wait?.event_type ?? "" }}
      body={body}
      on={isKeyed ? instance.id : undefined}
      dryRun
      showRefused={(plan) => <RefusedPlan plan={plan} />}
      show={(plan) => (
        <>
          <EffectPlan plan={plan} />
          {runsCode && !inUndo && <Behind workflow={instance.workflow} plan={plan} />}
        </>
      )}
      said={({ instance_id: copy }) => [
        `${word}: accepted.`,
        copy && [" ", <Link key="copy" to={hrefOf("instances", copy)} children="Open the new instance" />, "."],
      ]}
    >
      {verb === "move" && <TimeField label={`Start at (${timeZone()}), within the next 365 days`} value={time} set={setTime} />}
      {verb === "cancel" && !isDelayed(instance) && <Check label="Undo its effects" isSet={undo} set={setUndo} />}
      {takesOutput && (
        <JsonField
          label={
            inUndo
              ? "Output of the step, if it only reads (JSON; leave empty for an effect, which the undo then ignores)"
              : "Output of the step (JSON; leave empty if it has none)"
          }
          text={text}
          change={setText}
          mayBeEmpty
        />
      )}
      {verb === "signal" && <JsonField label={`Payload of ${wait?.event_type}, as JSON`} text={text} change={setText} />}
    </Act>
  );
}

/**
 * Shows steps that may follow, but that a dry run cannot predict. They are guarded steps that other runs of the workflow executed and this
 * run has not executed.
 */
function Behind({ workflow, plan: { effects } }: { workflow: string; plan: Plan }) {
  const { data } = useCatalog();
  const known = new Set(effects.map(({ step }) => step));
  const others = data?.workflows.find(({ name }) => name === workflow)?.steps.filter(({ name }) => !known.has(name)) ?? [];
  if (others.length === 0) return null;
  return (
    <p>
      Steps that other runs of {workflow} also took: {others.map(({ name, class: kind }) => `${name} (${kind})`).join(", ")}.
    </p>
  );
}
