import { useState } from "preact/hooks";
import { send } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { Act } from "../../parts/act.tsx";
import { JsonField, parsed } from "../../parts/answer.tsx";
import { EffectPlan, type Plan } from "../../parts/plan.tsx";
import type { Detail } from "./whole.ts";

export type Verb = "retry" | "skip" | "undo" | "cancel" | "pause" | "resume" | "restart" | "signal" | "close";

/** An act that somebody has begun to ask for. */
export interface Asked {
  verb: Verb;
  /** The step that it is about. */
  step?: string | undefined;
}

const WORDS: Readonly<Record<Verb, string>> = {
  retry: "Retry",
  skip: "Skip the step",
  undo: "Undo",
  cancel: "Cancel",
  pause: "Pause",
  resume: "Resume",
  restart: "Restart",
  signal: "Signal",
  close: "Close",
};

/** Acts that let it go on: no other is offered first. */
const FORWARD: ReadonlySet<Verb> = new Set(["retry", "resume", "signal"]);

/** What can be asked of an instance as it stands, what helps most first. The API decides; this only leaves out what it would refuse. */
function verbsFor({ status, waiting_for: waits, error }: Detail): Verb[] {
  if (status === "errored") return ["retry", ...(error?.step ? (["skip"] as const) : []), "undo", "restart", "close"];
  if (status === "terminated") return ["retry", "close"];
  if (status === "complete") return ["undo"];
  if (status === "paused") return ["resume", "cancel"];
  if (status === "in_doubt") return ["cancel", "pause", "close"];
  if (status === "dead" || status === "skipped") return [];
  return [...(waits.some(({ event_type }) => event_type !== null) ? (["signal"] as const) : []), "pause", "cancel", "restart"];
}

/** A button for each act that there is, for whoever may act. */
export function ActButtons({ instance, ask }: { instance: Detail; ask: (asked: Asked) => void }) {
  if (!may("operate")) return null;
  return (
    <p class="acts">
      {verbsFor(instance).map((verb, index) => (
        <button
          key={verb}
          type="button"
          class={index === 0 && FORWARD.has(verb) ? "main" : undefined}
          onClick={() => ask({ verb, step: instance.error?.step })}
        >
          {WORDS[verb]}
        </button>
      ))}
    </p>
  );
}

interface AskProps {
  instance: Detail;
  asked: Asked;
  done: (said: string) => void;
  close: () => void;
}

/** The dialog of one act: what it needs to be told, its dry run, why. */
export function AskAct({ instance, asked: { verb, step }, done, close }: AskProps) {
  const [text, setText] = useState(verb === "signal" ? "{}" : "null");
  const [undo, setUndo] = useState(true);
  const wait = instance.waiting_for.find(({ event_type }) => event_type !== null);
  const value = parsed(text);
  const takesJson = verb === "skip" || verb === "signal";
  const fields = {
    ...(verb === "retry" && step && { from: step }),
    ...(verb === "cancel" && { undo }),
    ...(verb === "skip" && { step, output: value?.value }),
    ...(verb === "signal" && { payload: value?.value }),
  };
  const path = verb === "signal" ? "/v1/instances/:id/signals/:type" : `/v1/instances/:id/${verb}`;
  const param = { id: instance.id, type: wait?.event_type ?? "" };
  const ask = (body: object, key?: string) =>
    send("POST", path, { param, body: { ...fields, ...body }, ...(key !== undefined && verb === "signal" && { key }) });
  return (
    <Act<Plan, { action_id: string }>
      title={`${WORDS[verb]}${step && (verb === "retry" || verb === "skip") ? `: ${step}` : ""}`}
      verb={WORDS[verb]}
      dryRun={() => ask({ reason: "What would it do?", dry_run: true }) as never}
      refusal={({ refused }) => refused}
      show={(plan) => <EffectPlan plan={plan} />}
      act={(reason, key) => ask({ reason }, key) as never}
      done={({ action_id }) => done(`${WORDS[verb]}: it is on its way, as action ${action_id}.`)}
      close={close}
      isReady={!takesJson || value !== undefined}
      depends={[text, undo]}
    >
      {verb === "cancel" && (
        <label class="check">
          <input type="checkbox" checked={undo} onChange={() => setUndo(!undo)} /> Take back what it did
        </label>
      )}
      {verb === "skip" && (
        <JsonField label="What the step answers to the code behind it, as JSON; null for nothing" text={text} change={setText} />
      )}
      {verb === "signal" && <JsonField label={`The payload of ${wait?.event_type}, as JSON`} text={text} change={setText} />}
    </Act>
  );
}
